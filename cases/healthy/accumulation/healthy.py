"""Gradient accumulation. 110 samples, micro-batches of 8 (the last has 6), groups of 4 (the last has 2)."""
import argparse
from itertools import islice

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def groups(loader, size):
    it = iter(loader)
    while chunk := list(islice(it, size)):
        yield chunk


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--micro", type=int, default=8)
    p.add_argument("--accumulate", type=int, default=4)
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--lr", type=float, default=0.05)
    return p.parse_args()


def main(args):
    torch.manual_seed(1)
    x = torch.randn(110, 5)
    y = (x @ torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0]) + 0.1 * torch.randn(110)).unsqueeze(1)
    loader = DataLoader(TensorDataset(x, y), batch_size=args.micro, shuffle=True)
    model = nn.Linear(5, 1)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum")

    backwards = steps = 0
    for epoch in range(args.epochs):
        epoch_loss = 0.0
        for chunk in groups(loader, args.accumulate):
            count = sum(len(xb) for xb, _ in chunk)      # 32, 32, 32, 14
            for xb, yb in chunk:
                loss = criterion(model(xb), yb) / count  # mean over the whole group, not per micro-batch
                loss.backward()
                epoch_loss += loss.item() * count
                backwards += 1
            opt.step()
            opt.zero_grad()
            steps += 1
        if epoch % 2 == 1:
            print(f"epoch {epoch} mse {epoch_loss / len(x):.4f}")
    print(f"{backwards} backward passes, {steps} steps")


if __name__ == "__main__":
    main(parse())
