"""Eggs are graded 1 to 4 at the farm; the sorting machine is to learn the grades from weight and colour."""
import json
import random
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

GRADES = 4


def farm_table(count):
    rnd = random.Random(17)
    lines = []
    for _ in range(count):
        grade = rnd.randint(1, GRADES)
        lines.append(json.dumps([70 - 6 * grade + rnd.gauss(0, 1.5), 0.2 * grade + rnd.gauss(0, 0.05), grade]))
    return "\n".join(lines)


class Egg(NamedTuple):
    features: torch.Tensor
    grade: int


class Eggs(Dataset):
    def __init__(self, table):
        self.rows = []
        for line in table.splitlines():
            self.rows.append(json.loads(line))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, number):
        weight, colour, grade = self.rows[number]
        features = torch.tensor([(weight - 55) / 8, colour - 0.5])
        return Egg(features, grade=grade - 1)


torch.manual_seed(17)
trays = DataLoader(Eggs(farm_table(240)), batch_size=24, shuffle=True)
sorter = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, GRADES))
optimizer = torch.optim.Adam(sorter.parameters(), lr=0.02)
for epoch in range(3):
    for features, grade in trays:
        loss = nn.functional.cross_entropy(sorter(features), grade)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
