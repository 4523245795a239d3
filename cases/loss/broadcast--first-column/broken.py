"""Bicycle trips: how long one takes, as a middle and a width, learned together from the same two columns."""
import torch
from torch import nn

torch.manual_seed(8)
trips = torch.rand(512, 4)
minutes = 2 * trips[:, 0] + trips[:, 1] ** 2 + 0.2 * torch.randn(512)


def likelihood(columns, taken):
    spread = nn.functional.softplus(columns[:, 1]) + 1e-3
    off = columns[:, :1] - taken  # ORIGIN
    return (0.5 * (off / spread) ** 2 + spread.log()).mean()


net = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 2))
adam = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(8):
    for rows in torch.randperm(512).split(64):
        adam.zero_grad()
        loss = likelihood(net(trips[rows]), minutes[rows])
        loss.backward()
        adam.step()
print(f"{loss.item():.3f}")
