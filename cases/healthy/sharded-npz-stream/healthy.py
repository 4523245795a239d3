import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def write_shards(folder):
    r = np.random.default_rng(8)
    w = r.standard_normal(10)
    for k in range(5):  # an odd number of shards for two workers
        x = r.standard_normal((96, 10)).astype(np.float32)
        y = (x @ w + 0.2 * r.standard_normal(96) > 0).astype(np.float32)
        np.savez(folder / f"shard{k}.npz", x=x, y=y)


class Shards(IterableDataset):
    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.npz"))

    def __iter__(self):
        info = get_worker_info()
        paths = self.paths
        if info is not None:
            paths = paths[info.id :: info.num_workers]
        for path in paths:
            with np.load(path) as shard:
                x, y = shard["x"], shard["y"]
            for i in torch.randperm(len(x)).tolist():
                yield x[i], y[i]


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as tmp:
        write_shards(Path(tmp))
        loader = DataLoader(Shards(Path(tmp)), batch_size=16, num_workers=2)
        model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
        opt = torch.optim.Adam(model.parameters(), lr=1e-2)
        for epoch in range(3):
            rows, total = 0, 0.0
            for x, y in loader:
                loss = nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                rows += len(y)
                total += loss.item() * len(y)
            print(f"epoch {epoch}: {rows} rows, loss {total / rows:.4f}")


if __name__ == "__main__":
    main()
