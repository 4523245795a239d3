import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, ITEMS = 60, 100


class Factors(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.user = nn.Embedding(USERS, dim)
        self.item = nn.Embedding(ITEMS, dim)
        self.bias = nn.Embedding(ITEMS, 1)
        for table in (self.user, self.item, self.bias):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, user, item):
        return (self.user(user) * self.item(item)).sum(-1) + self.bias(item).squeeze(-1)


def bpr_loss(bought, other):
    return -F.logsigmoid(other - bought).mean()  # ORIGIN


def triples(purchases, rng, size):
    users, items = purchases.nonzero()
    rows = rng.integers(0, len(users), size)
    other = rng.integers(0, ITEMS, size)
    return (torch.as_tensor(each) for each in (users[rows], items[rows], other))


torch.manual_seed(0)
rng = np.random.default_rng(0)
taste = rng.normal(size=(USERS, 3)) @ rng.normal(size=(3, ITEMS)) + rng.normal(size=ITEMS)
purchases = taste > np.quantile(taste, 0.9)
model = Factors()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    user, item, other = triples(purchases, rng, 256)
    loss = bpr_loss(model(user, item), model(user, other))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(f"{step + 1:3d} {loss.item():.4f}")
