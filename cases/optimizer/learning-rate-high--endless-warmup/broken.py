"""Distil a small network; the rate is warmed up step by step."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.2)
parser.add_argument("--warmup", type=int, default=20)
parser.add_argument("--epochs", type=int, default=14)
args = parser.parse_args()

torch.manual_seed(0)
x = torch.randn(640, 12)
teacher = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
with torch.no_grad():
    y = teacher(x)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)

model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)


def warmup(step):
    return (step + 1) / args.warmup  # ORIGIN


scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, warmup)
for epoch in range(args.epochs):
    total = 0.0
    for xb, yb in loader:
        loss = nn.functional.mse_loss(model(xb), yb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        total += loss.item()
    print(f"{epoch} loss {total / len(loader):.4g} lr {scheduler.get_last_lr()[0]:.3g}")
