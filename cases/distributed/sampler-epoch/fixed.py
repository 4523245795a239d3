import os

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

RANK = int(os.environ.get("RANK", 0))
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", 1))


def build_loader(dataset, batch_size):
    sampler = DistributedSampler(dataset, num_replicas=WORLD_SIZE, rank=RANK, shuffle=True, seed=0)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler), sampler


def main():
    torch.manual_seed(0)
    x = torch.randn(320, 10)
    y = (x @ torch.randn(10, 3)).argmax(1)
    loader, sampler = build_loader(TensorDataset(x, y), batch_size=32)
    if RANK == 0:
        print(f"{len(sampler)} samples per replica, {len(loader)} batches")

    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        total = 0.0
        for xb, yb in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(xb), yb)
            loss.backward()
            opt.step()
            total += loss.item()
        if RANK == 0:
            print(f"epoch {epoch}: loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
