"""Learning rates compared: every run begins from the same weights and sees the same batches in the same order.

The second half trains one model on batches that were put together once, of neighbours in length: an order that stays, and is meant to.
"""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build():
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1))


def one_pass(model, optimizer, loader):
    total = 0.0
    for x, y in loader:
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def compare(data, rates, seed=5):
    shared = DataLoader(data, batch_size=20, shuffle=True)
    for rate in rates:
        torch.manual_seed(seed)
        model = build()
        optimizer = torch.optim.SGD(model.parameters(), lr=rate)
        print(f"lr {rate}: {one_pass(model, optimizer, shared):.4f}")


def batches_of_neighbours(sizes, batch_size):
    order = sizes.argsort().tolist()
    batches = [order[i : i + batch_size] for i in range(0, len(order), batch_size)]
    random.Random(0).shuffle(batches)
    return batches


def main():
    torch.manual_seed(1)
    x = torch.randn(200, 6)
    data = TensorDataset(x, x[:, :1] * x[:, 1:2] + 0.1 * torch.randn(200, 1))
    compare(data, [0.2, 0.05, 0.01])

    loader = DataLoader(data, batch_sampler=batches_of_neighbours(x.norm(dim=1), 20))
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(3):
        print(f"epoch {epoch}: {one_pass(model, optimizer, loader):.4f}")


if __name__ == "__main__":
    main()
