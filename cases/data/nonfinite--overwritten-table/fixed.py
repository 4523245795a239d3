import numpy as np
import torch
from torch import nn


def gauges(n, seed):
    rng = np.random.default_rng(seed)
    wet_days = rng.binomial(30, rng.beta(0.5, 1.2, n))
    return wet_days, wet_days * rng.gamma(2.0, 4.0, n), rng.uniform(0, 2500, n)


def main():
    # rainfall at mountain stations: does the stream below rise?
    np.seterr(divide="ignore", invalid="ignore")
    wet_days, rain, height = gauges(800, seed=4)
    per_day = rain / np.maximum(wet_days, 1)
    table = np.stack([wet_days, np.sqrt(rain), per_day, height], axis=1)
    table = table - np.nanmean(table, axis=0)
    table = table / np.nanstd(table, axis=0)
    rises = (table[:, 1] - 0.3 * table[:, 3] > 0).astype(np.float32)
    inputs, targets = torch.from_numpy(table.astype(np.float32)), torch.from_numpy(rises)
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(4):
        for rows in torch.randperm(len(inputs)).split(80):
            loss = nn.functional.binary_cross_entropy_with_logits(model(inputs[rows])[:, 0], targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


main()
