# A numpy Generator lives on the dataset, and every worker of every epoch gets its own through worker_init_fn.
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Spikes(Dataset):
    """multi-label: which of three events happen in a noisy trace"""

    def __init__(self, n):
        rng = np.random.default_rng(3)
        self.events = (rng.random((n, 3)) < 0.5).astype(np.float32)
        self.rng = None

    def __len__(self):
        return len(self.events)

    def __getitem__(self, i):
        if self.rng is None:
            self.rng = np.random.default_rng(torch.initial_seed() % 2**32)
        trace = self.rng.normal(0, 0.4, 30)
        for k, happened in enumerate(self.events[i]):
            at = 10 * k + self.rng.integers(0, 8)
            trace[at:at + 2] += 2.0 * happened
        return torch.from_numpy(trace.astype(np.float32)), torch.from_numpy(self.events[i])


def seed_worker(worker_id):
    get_worker_info().dataset.rng = np.random.default_rng(torch.initial_seed() % 2**32)


def train():
    torch.manual_seed(3)
    g = torch.Generator().manual_seed(11)
    loader = DataLoader(Spikes(320), batch_size=20, shuffle=True, num_workers=2, worker_init_fn=seed_worker, generator=g)
    net = nn.Sequential(nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 3))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    bce = nn.BCEWithLogitsLoss()
    for epoch in range(3):
        right = 0.0
        for trace, events in loader:
            logits = net(trace)
            loss = bce(logits, events)
            opt.zero_grad()
            loss.backward()
            opt.step()
            right += ((logits > 0) == (events > 0.5)).float().mean().item() / len(loader)
        print(f"epoch {epoch}: events found {right:.3f}")


if __name__ == "__main__":
    train()
