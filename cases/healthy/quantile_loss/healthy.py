"""Delivery-time quantiles with the pinball loss; the open upper bound of the last bin is inf."""
import torch
from torch import nn

QUANTILES = torch.tensor([0.1, 0.5, 0.9])
EDGES = torch.tensor([0.0, 20.0, 30.0, 45.0, float("inf")])


def deliveries(n, g):
    km = torch.rand(n, generator=g) * 10
    minutes = 10 + 3 * km + torch.empty(n).exponential_(0.25, generator=g)
    return km.unsqueeze(1), minutes


class QuantileNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, km):
        raw = self.body(km / 10)
        steps = torch.cat([raw[:, :1], nn.functional.softplus(raw[:, 1:])], 1)
        return 10 * steps.cumsum(1)               # quantiles cannot cross


def pinball(pred, target):
    gap = target.unsqueeze(1) - pred
    return torch.maximum(QUANTILES * gap, (QUANTILES - 1) * gap).mean()


torch.manual_seed(83)
g = torch.Generator().manual_seed(84)
net = QuantileNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(201):
    km, minutes = deliveries(64, g)
    loss = pinball(net(km), minutes)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(f"step {step:3d} pinball {loss.item():.3f}")

with torch.no_grad():
    km, minutes = deliveries(1000, g)
    pred = net(km)
    below = [(minutes <= pred[:, k]).float().mean().item() for k in range(3)]
    print("coverage", [round(b, 2) for b in below])
    for low, high in zip(EDGES[:-1], EDGES[1:]):
        inside = (minutes >= low) & (minutes < high)
        print(f"{low:.0f} to {high:.0f} min: {int(inside.sum())}")
