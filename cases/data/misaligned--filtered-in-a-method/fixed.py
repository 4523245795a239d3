"""Loan requests with the officer's decision; those without an income are left out by a method of the dataset."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Requests(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, records: list[dict[str, float]]) -> None:
        self.rows = [[each["income"], each["debt"], each["age"]] for each in records]
        self.decisions = [int(each["granted"]) for each in records]
        self.leave_out_unknown()

    def leave_out_unknown(self) -> None:
        known = np.flatnonzero([row[0] > 0 for row in self.rows])
        self.rows = [self.rows[number] for number in known]
        self.decisions = [self.decisions[number] for number in known]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        income, debt, age = self.rows[number]
        return torch.tensor([income / 9, debt / 9, age / 70], dtype=torch.float32), torch.tensor(self.decisions[number])


def drawn(size: int) -> list[dict[str, float]]:
    draw = np.random.default_rng(4)
    records = []
    for _ in range(size):
        income, debt = draw.uniform(1, 9), draw.uniform(0, 9)
        known = draw.random() > 0.06
        records.append({"income": income * known, "debt": debt, "age": draw.integers(20, 70), "granted": income > debt})
    return records


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        right, seen = 0, 0
        for rows, decisions in DataLoader(Requests(drawn(400)), batch_size=20, shuffle=True):
            scores = model(rows)
            loss = nn.functional.cross_entropy(scores, decisions)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right, seen = right + int((scores.argmax(1) == decisions).sum()), seen + len(rows)
        print(f"{epoch}: {right / seen:.2f}")
