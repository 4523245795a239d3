import torch
from torch import nn
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR, SequentialLR
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(23)

EPOCHS, WARM = 8, 2

x = torch.randn(240, 10)
y = (x[:, 0] * x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=24, shuffle=True)

model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
warm = LinearLR(optimizer, start_factor=0.1, total_iters=WARM)
cosine = CosineAnnealingLR(optimizer, T_max=EPOCHS - WARM)
scheduler = SequentialLR(optimizer, [warm, cosine], milestones=[WARM])

for epoch in range(EPOCHS):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    scheduler.step()
    print(f"epoch {epoch}: loss {loss.item():.4f}, rate {scheduler.get_last_lr()[0]:.4f}")
