"""Three portions of gradients for one update; an update with a gradient that is not finite is left out, as it is noticed."""

import torch
from torch import nn

torch.manual_seed(2)
rng = torch.Generator().manual_seed(2)
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
left_out = 0
for update in range(120):
    optimizer.zero_grad()
    for portion in range(3):
        x = torch.randn(8, 4, generator=rng)
        away = model(x) - x[:, :2]
        if update % 15 == 9 and portion == 1:
            # A point that is hit exactly has a distance without a derivative.
            away = away * torch.tensor([0.0] + [1.0] * 7)[:, None]
        (away.square().sum(1).sqrt().mean() / 3).backward()
    if all(torch.isfinite(each.grad).all() for each in model.parameters()):
        optimizer.step()
    else:
        left_out += 1
print(f"left out {left_out} of 120")
