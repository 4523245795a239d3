"""Risk after an operation, from laboratory values; the second hospital's patients are older, and scaled like the first one's."""

import numpy as np
import torch
from torch import nn


def patients(rng, count, age):
    years = rng.normal(age, 11, count).clip(20, 95)
    creatinine = np.exp(rng.normal(-0.1 + 0.006 * (years - 55), 0.25))
    albumin = rng.normal(42 - 0.08 * (years - 55), 4, count)
    crp = np.exp(rng.normal(2.2, 0.8, count))
    risk = 0.06 * (years - 60) + 1.5 * (creatinine - 1) - 0.12 * (albumin - 41) + 0.02 * crp
    happened = rng.random(count) < 1 / (1 + np.exp(-2 * risk))
    return np.column_stack([years, creatinine, albumin, np.log(crp)]), happened.astype(np.float32)


class Risk(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.hidden = nn.Linear(columns, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, values):
        return self.out(torch.tanh(self.hidden(values))).squeeze(-1)


def accuracy(model, values, happened):
    with torch.no_grad():
        return ((model(values) > 0) == (happened > 0.5)).float().mean().item()


def main():
    torch.manual_seed(44)
    rng = np.random.default_rng(44)
    first, second = patients(rng, 700, age=58), patients(rng, 220, age=66)
    mean, spread = first[0].mean(0), first[0].std(0)
    (x_train, y_train), (x_valid, y_valid) = (
        (torch.tensor((table - mean) / spread, dtype=torch.float32), torch.from_numpy(happened))
        for table, happened in (first, second)
    )
    model = Risk(x_train.shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    for epoch in range(10):
        order = torch.randperm(len(x_train))
        for start in range(0, len(order), 70):
            rows = order[start : start + 70]
            loss = nn.functional.binary_cross_entropy_with_logits(model(x_train[rows]), y_train[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        first_right, second_right = accuracy(model, x_train, y_train), accuracy(model, x_valid, y_valid)
        print(f"{epoch}: first hospital {first_right:.3f}, second {second_right:.3f}")


main()
