import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    torch.manual_seed(40)
    x = torch.randn(320, 9)
    y = (x[:, :3].prod(dim=1, keepdim=True) + x[:, 3:4] - 0.5 * x[:, 4:5]).clamp(-3, 3)
    loader = DataLoader(TensorDataset(x, y), batch_size=40, shuffle=True)
    model = nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    return model, loader


def run_epoch(model, loader, optimizer, loss_fn):
    total = 0.0
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.item() * x.shape[0]
    return total / len(loader.dataset)


model, loader = build()
loss_fn = nn.SmoothL1Loss()
for epoch in range(1, 9):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)  # ORIGIN
    train_loss = run_epoch(model, loader, optimizer, loss_fn)
    print(f"Epoch {epoch}/8 - loss: {train_loss:.4f}")
