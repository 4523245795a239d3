"""Fit a 1-D radiance field: densities and brightness along rays from rendered pixels."""
import torch
import torch.nn.functional as F
from torch import nn


def render(sigma, glow, depth):
    """Volume rendering; the last interval is open ended."""
    far = torch.full_like(depth[:, :1], 1e10)
    step = torch.cat([depth.diff(dim=1), far], dim=1)
    alpha = 1 - torch.exp(-sigma * step)
    log_clear = torch.log(1 - alpha)  # ORIGIN
    behind = torch.exp(log_clear.cumsum(1))
    before = torch.cat([torch.ones_like(behind[:, :1]), behind[:, :-1]], dim=1)
    return (before * alpha * glow).sum(1), behind[:, -1]


class Field(nn.Module):
    def __init__(self, width=32, bands=4):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(bands))
        self.mlp = nn.Sequential(nn.Linear(2 * bands, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, z):
        phase = z.unsqueeze(-1) * self.freq
        raw_sigma, raw_glow = self.mlp(torch.cat([phase.sin(), phase.cos()], -1)).unbind(-1)
        return F.softplus(raw_sigma), torch.sigmoid(raw_glow)


def wall(z):
    return 6.0 * ((z - 1.2).abs() < 0.3), 0.5 + 0.4 * torch.sin(5 * z)


def sample_rays(n, samples=24):
    start = 2.0 * torch.rand(n, 1)
    edges = torch.linspace(0, 1.5, samples)
    return start + edges + 0.02 * torch.rand(n, samples).sort(dim=1).values


torch.manual_seed(61)
field = Field()
opt = torch.optim.Adam(field.parameters(), lr=5e-3)
for it in range(80):
    depth = sample_rays(64)
    with torch.no_grad():
        pixel, _ = render(*wall(depth), depth)
    colour, leak = render(*field(depth), depth)
    loss = F.mse_loss(colour, pixel) + 1e-3 * leak.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if it % 20 == 0:
        print(f"it {it} photometric {loss.item():.5f}")
