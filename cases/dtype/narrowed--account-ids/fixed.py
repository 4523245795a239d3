import random

import torch
from torch import nn

FIRST_ACCOUNT = 204_000_000
N_ACCOUNTS = 96


def transactions(n, seed=3):
    """(account number, hour of the day, log amount), exported row by row"""
    rnd = random.Random(seed)
    habit = [rnd.gauss(0.0, 1.0) for _ in range(N_ACCOUNTS)]
    rows = []
    for _ in range(n):
        k = rnd.randrange(N_ACCOUNTS)
        hour = rnd.random()
        rows.append((FIRST_ACCOUNT + k, hour, habit[k] + 0.5 * (hour - 0.5) + rnd.gauss(0.0, 0.1)))
    return rows


class SpendModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.account = nn.Embedding(128, 4)  # leaves room for new accounts
        self.net = nn.Sequential(nn.Linear(5, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, account, hour):
        return self.net(torch.cat([self.account(account), hour[:, None]], dim=1)).squeeze(1)


table = torch.tensor(transactions(1600), dtype=torch.float64)
account = table[:, 0].long() - FIRST_ACCOUNT
hour = table[:, 1].float() * 2 - 1
amount = table[:, 2].float()

torch.manual_seed(7)
model = SpendModel()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for epoch in range(4):
    err = 0.0
    for idx in torch.randperm(len(table)).split(64):
        loss = nn.functional.mse_loss(model(account[idx], hour[idx]), amount[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        err += loss.item() * len(idx)
    print(f"epoch {epoch} mse {err / len(table):.4f}")
