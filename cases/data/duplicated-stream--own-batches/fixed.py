import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


class WellLogs(IterableDataset):
    """Gives whole batches, so that slicing stays in numpy (DataLoader gets batch_size=None)."""

    def __init__(self, features, porosity, batch):
        super().__init__()
        self.features, self.porosity = features, porosity
        self.batch = batch
        self.epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __iter__(self):
        order = np.random.default_rng(1000 + self.epoch).permutation(len(self.features))
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        for lo in range(worker * self.batch, len(order), workers * self.batch):
            rows = order[lo : lo + self.batch]
            yield self.features[rows], self.porosity[rows]


class Regressor(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = torch.nn.Linear(7, 40)
        self.norm = torch.nn.LayerNorm(40)
        self.out = torch.nn.Linear(40, 1)

    def forward(self, x):
        return self.out(torch.nn.functional.silu(self.norm(self.hidden(x)))).squeeze(-1)


def train(epochs=3):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((768, 7)).astype(np.float32)
    y = (x[:, 0] * x[:, 1] + 0.5 * x[:, 2] + 0.1 * rng.standard_normal(768)).astype(np.float32)
    logs = WellLogs(x, y, batch=32)
    loader = DataLoader(logs, batch_size=None, num_workers=2)
    torch.manual_seed(0)
    model = Regressor()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for epoch in range(epochs):
        logs.set_epoch(epoch)
        total, steps = 0.0, 0
        for xb, yb in loader:
            loss = torch.nn.functional.mse_loss(model(xb), yb)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total, steps = total + loss.item(), steps + 1
        print(f"epoch {epoch} | {steps} steps | mse {total / steps:.4f}")


if __name__ == "__main__":
    train()
