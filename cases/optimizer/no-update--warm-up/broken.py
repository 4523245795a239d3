"""A warm-up over the first steps, then a decay with the square root."""

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

WARM_UP = 400


def factor(step: int) -> float:
    return step // WARM_UP if step < WARM_UP else (WARM_UP / step) ** 0.5  # ORIGIN


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = LambdaLR(optimizer, factor)
for step in range(30):
    x = torch.randn(32, 6)
    loss = nn.functional.cross_entropy(model(x), (x[:, 0] > x[:, 1]).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
print(round(loss.item(), 4))
