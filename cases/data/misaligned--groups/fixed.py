"""Which machines will fail, from the counts of their alarms: a log with one line for each alarm, machine by machine."""

import random
from itertools import groupby
from operator import itemgetter

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

KINDS = 5


def alarms(machines=160):
    rng = random.Random(4)
    failing = {number: rng.random() < 0.5 for number in rng.sample(range(1000), machines)}
    log = []
    for number, fails in failing.items():
        weights = [1, 1, 1, 1, 6 if fails else 1]
        log += [(number, kind) for kind in rng.choices(range(KINDS), weights, k=rng.randint(8, 20))]
    return sorted(log, key=itemgetter(0)), failing


def counted(kinds):
    counts = torch.zeros(KINDS)
    for kind in kinds:
        counts[kind] += 1
    return counts / len(kinds)


class Machines(Dataset):
    def __init__(self, log, failing):
        self.counts = [counted([kind for _, kind in group]) for _, group in groupby(log, key=itemgetter(0))]
        self.fails = torch.tensor([float(failing[number]) for number in sorted(failing)])

    def __len__(self):
        return len(self.counts)

    def __getitem__(self, index):
        return self.counts[index], self.fails[index]


torch.manual_seed(0)
loader = DataLoader(Machines(*alarms()), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(KINDS, 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(6):
    for counts, fails in loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(counts), fails)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch + 1}: {loss.item():.3f}")
