import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def make_loader(n=480):
    x = torch.randn(n, 10)
    w = torch.randn(10, 3)
    y = (x @ w + 0.2 * torch.randn(n, 3)).argmax(dim=1)
    return DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)


def train_one_epoch(model, loader, optimizer, loss_fn):
    model.train()
    total, correct, seen = 0.0, 0, 0
    for xb, yb in loader:
        optimizer.zero_grad()
        out = model(xb)
        loss = loss_fn(out, yb)
        loss.backward()  # ORIGIN
        total += loss.item() * len(xb)
        correct += (out.argmax(1) == yb).sum().item()
        seen += len(xb)
    return total / seen, correct / seen


def main():
    torch.manual_seed(21)
    loader = make_loader()
    model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(3):
        loss, acc = train_one_epoch(model, loader, optimizer, nn.CrossEntropyLoss())
        print(f"[{epoch}] loss={loss:.4f} acc={acc:.3f}")


main()
