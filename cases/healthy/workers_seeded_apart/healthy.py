"""Two workers with a worker_init_fn: it sets the random streams from the seed that torch gave the worker, and the same number of
threads for all. One loader draws noise, another one has nothing random in it and gets a constant seed."""
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, get_worker_info


class Pulses(Dataset):
    def __init__(self, count, noisy):
        self.noisy = noisy
        self.kind = torch.arange(count) % 2
        self.wave = torch.sin(torch.linspace(0, 6, 20)[None] * (1 + self.kind[:, None]))
        self.rng = None

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, k):
        if not self.noisy:
            return self.wave[k], self.kind[k]
        noise = self.rng.normal(0, 0.2, 20).astype(np.float32) + random.uniform(-0.1, 0.1)
        return self.wave[k] + torch.from_numpy(noise), self.kind[k]


def begin(number):
    torch.set_num_threads(1)
    info = get_worker_info()
    random.seed(info.seed)
    info.dataset.rng = np.random.default_rng(info.seed)


def begin_alike(number):
    np.random.seed(0)


if __name__ == "__main__":
    torch.manual_seed(2)
    noisy = DataLoader(Pulses(96, True), 12, shuffle=True, num_workers=2, worker_init_fn=begin)
    plain = DataLoader(Pulses(96, False), 12, shuffle=True, num_workers=2, worker_init_fn=begin_alike)
    net = torch.nn.Sequential(torch.nn.Linear(20, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch, loader in enumerate((plain, noisy)):
        for wave, kind in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(wave), kind)
            loss.backward()
            optimizer.step()
        print(epoch, round(loss.item(), 4))
