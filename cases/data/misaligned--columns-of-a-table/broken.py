"""Which machine a noise comes from: measured levels in one table with the machine's number."""

import numpy as np
import pandas as pd
import torch
from torch import nn

BANDS = ["low", "middle", "high"]


def measured(count: int = 480) -> pd.DataFrame:
    draw = np.random.default_rng(8)
    machine = draw.integers(0, 3, count)
    table = pd.DataFrame(draw.normal(size=(count, 3)) + 2 * np.eye(3)[machine], columns=BANDS)
    table["machine"] = machine
    table.loc[draw.choice(count, 30, replace=False), "middle"] = np.nan
    return table


def separated(table: pd.DataFrame):
    levels = table[BANDS].dropna()  # ORIGIN
    kinds = table["machine"].to_numpy()[: len(levels)]
    return levels.to_numpy(dtype="float32"), kinds


def in_batches(levels, kinds, size=24):
    for begin in range(0, len(levels) - size + 1, size):
        end = begin + size
        yield torch.from_numpy(levels[begin:end]), torch.as_tensor(kinds[begin:end])


def main():
    torch.manual_seed(0)
    levels, kinds = separated(measured())
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for epoch in range(3):
        total = 0.0
        for noise, machine in in_batches(levels, kinds):
            loss = nn.functional.cross_entropy(model(noise), machine)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(epoch, round(total, 2))


main()
