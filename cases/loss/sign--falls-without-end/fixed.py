import math

import torch
from torch import nn

torch.manual_seed(13)
centres = torch.tensor([[-2.0, 0.0], [2.0, 1.0], [0.0, -2.0]])
mixture = nn.Linear(1, 3 * 5)
optimizer = torch.optim.Adam(mixture.parameters(), lr=0.3)


def log_likelihood(points, raw):
    weight, mean, spread = raw.view(3, 5).split([1, 2, 2], dim=-1)
    spread = nn.functional.softplus(spread)
    away = (points[:, None] - mean) / spread
    each = (-0.5 * away**2 - spread.log() - 0.5 * math.log(2 * math.pi)).sum(-1)
    return (each + weight.squeeze(-1).log_softmax(0)).logsumexp(-1).mean()


for _step in range(150):
    points = centres[torch.randint(3, (64,))] + 0.3 * torch.randn(64, 2)
    optimizer.zero_grad()
    loss = -log_likelihood(points, mixture(torch.ones(1)))
    loss.backward()
    optimizer.step()
