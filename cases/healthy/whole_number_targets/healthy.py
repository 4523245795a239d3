"""Targets that are whole numbers on purpose: counts, grades by thresholds, prices in cents, and a mean that is rounded."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shops(Dataset):
    def __init__(self, n, seed):
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(n, 4)).astype(np.float32)
        self.visitors = rng.poisson(np.exp(0.5 + 0.4 * self.x[:, 0])).astype(np.int64)
        satisfaction = 1 / (1 + np.exp(-self.x[:, 1]))
        self.grade = np.digitize(satisfaction, [0.2, 0.4, 0.6, 0.8])
        turnover = 2000 + 600 * self.x[:, 2] + rng.normal(0, 40, n)
        self.cents = (turnover * 100).astype(np.int64)
        self.stars = np.round(3 + self.x[:, 3]).astype(int)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], {
            "visitors": self.visitors[i],
            "grade": int(self.grade[i]),
            "cents": self.cents[i],
            "stars": int(self.stars[i]),
        }


def main():
    torch.manual_seed(0)
    shops = Shops(320, seed=4)
    loader = DataLoader(shops, batch_size=40, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(2):
        for x, target in loader:
            rate, grade, money, stars = model(x).unbind(1)
            loss = nn.functional.poisson_nll_loss(rate, target["visitors"].float())
            loss = loss + nn.functional.mse_loss(grade, target["grade"].float())
            loss = loss + nn.functional.smooth_l1_loss(money, target["cents"].float() / 100_000)
            loss = loss + (stars - target["stars"]).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
