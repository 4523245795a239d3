import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(900, 16)
y = (x @ torch.randn(16, 5) + 0.5 * torch.randn(900, 5)).argmax(dim=1)
train = DataLoader(TensorDataset(x[:600], y[:600]), batch_size=60, shuffle=True)
valid = DataLoader(TensorDataset(x[600:], y[600:]), batch_size=100)
model = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 5))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
scheduler = ReduceLROnPlateau(optimizer, mode="max", factor=0.5, patience=2)


@torch.no_grad()
def accuracy():
    model.eval()
    right = sum((model(rows).argmax(dim=1) == kinds).sum().item() for rows, kinds in valid)
    return 100 * right / len(valid.dataset)


for epoch in range(14):
    model.train()
    for rows, kinds in train:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(rows), kinds)
        loss.backward()
        optimizer.step()
    right = accuracy()
    scheduler.step(right)
    print(f"epoch {epoch} loss {loss.item():.3f} right {right:.1f} % rate {scheduler.get_last_lr()[0]:.1e}")
