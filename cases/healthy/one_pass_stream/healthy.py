# Online learning: clicks come from a generator that is read exactly once, tested on before they are trained on.
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class ClickStream(IterableDataset):
    def __init__(self, events):
        super().__init__()
        self.events = events

    def __iter__(self):
        for ad, place, clicked in self.events:
            yield torch.tensor([ad, place]), torch.tensor(float(clicked))


def live_events(n, seed):
    r = random.Random(seed)
    taste = [[r.gauss(0, 1.5) for _ in range(5)] for _ in range(20)]
    for _ in range(n):
        ad, place = r.randrange(20), r.randrange(5)
        p = 1 / (1 + 2.718281828 ** -taste[ad][place])
        yield ad, place, r.random() < p


class Clicker(nn.Module):
    def __init__(self):
        super().__init__()
        self.ad = nn.Embedding(20, 8)
        self.place = nn.Embedding(5, 8)
        self.out = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, pair):
        return self.out(torch.cat([self.ad(pair[:, 0]), self.place(pair[:, 1])], dim=1)).squeeze(1)


torch.manual_seed(1)
model = Clicker()
opt = torch.optim.Adagrad(model.parameters(), lr=0.1)
loader = DataLoader(ClickStream(live_events(1600, seed=1)), batch_size=32)

progressive = []
for step, (pair, clicked) in enumerate(loader):
    logit = model(pair)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, clicked)
    progressive.append(((logit > 0) == (clicked > 0.5)).float().mean().item())     # before the update
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 9:
        print(f"after {step + 1} batches: progressive accuracy {sum(progressive[-10:]) / 10:.3f}")
