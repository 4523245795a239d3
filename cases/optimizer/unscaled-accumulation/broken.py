import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(14)

MICRO_BATCH = 8
ACCUM_STEPS = 8     # effective batch size 64
LR = 0.06

x = torch.randn(1024, 20)
teacher = nn.Sequential(nn.Linear(20, 16), nn.Tanh(), nn.Linear(16, 1))
with torch.no_grad():
    y = 3 * teacher(x)
    y = (y - y.mean()) / y.std()
loader = DataLoader(TensorDataset(x, y), batch_size=MICRO_BATCH, shuffle=True)

model = nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=LR)
loss_fn = nn.MSELoss()

for epoch in range(3):
    epoch_loss = 0.0
    optimizer.zero_grad()
    for i, (xb, yb) in enumerate(loader, start=1):
        loss = loss_fn(model(xb), yb)
        loss.backward()  # ORIGIN
        epoch_loss += loss.item()
        if i % ACCUM_STEPS == 0:
            optimizer.step()
            optimizer.zero_grad()
    print(f"epoch {epoch}: loss {epoch_loss / len(loader):.4f}")
