"""Imbalanced classes: weights by inverse frequency; one class is absent from the split."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

NUM_CLASSES = 5


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=g)
    y = torch.multinomial(torch.tensor([0.5, 0.3, 0.15, 0.05, 0.0]), n, replacement=True, generator=g)
    return x + y[:, None], y


def inverse_frequency(labels):
    freq = torch.tensor([(labels == c).float().mean().item() for c in range(NUM_CLASSES)])
    weights = 1.0 / freq  # ORIGIN
    return weights / weights.sum() * NUM_CLASSES


def accuracy(model, loader):
    model.eval()
    with torch.no_grad():
        hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return hits / len(loader.dataset)


def main():
    torch.manual_seed(0)
    x, y = make_split(320, 0)
    loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, NUM_CLASSES))
    criterion = nn.CrossEntropyLoss(weight=inverse_frequency(y))
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(3):
        for xb, yb in loader:
            opt.zero_grad()
            loss = criterion(model(xb), yb)
            loss.backward()
            opt.step()
        print(epoch, "acc", accuracy(model, loader))


main()
