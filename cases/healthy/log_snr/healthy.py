"""Diffusion in continuous time; log SNR reaches +inf and -inf at the two ends, weights stay bounded."""
import math

import torch
from torch import nn


class CosineSchedule:
    """alpha = cos, sigma = sin; the ends of the schedule are exact."""

    def __call__(self, t):
        alpha = torch.cos(t * math.pi / 2)
        sigma = torch.sin(t * math.pi / 2)
        log_snr = 2 * (torch.log(alpha.clamp(min=0)) - torch.log(sigma))
        return alpha, sigma, log_snr

    def weight(self, log_snr, gamma=5.0):
        return torch.sigmoid(math.log(gamma) - log_snr) + 0.05      # 0.05 at +inf, 1.05 at -inf


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, log_snr):
        squashed = torch.tanh(log_snr / 8)
        cond = torch.stack([squashed, 1 - squashed.square()], 1)
        return self.net(torch.cat([x, cond], 1))


def spiral(n):
    r = torch.rand(n).sqrt() * 1.5
    return torch.stack([r * torch.cos(4 * r), r * torch.sin(4 * r)], 1)


torch.manual_seed(111)
schedule, model = CosineSchedule(), Denoiser()
opt = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(121):
    x0, noise, t = spiral(64), torch.randn(64, 2), torch.rand(64)
    t[0], t[1] = 0.0, 1.0                                          # always train both ends
    alpha, sigma, log_snr = schedule(t)
    log_snr[1] = -math.inf
    x_t = alpha[:, None] * x0 + sigma[:, None] * noise
    velocity = alpha[:, None] * noise - sigma[:, None] * x0
    error = (model(x_t, log_snr) - velocity).square().mean(1)
    loss = (schedule.weight(log_snr) * error).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(f"step {step} loss {loss.item():.4f} log snr from {log_snr.min().item()} to {log_snr.max().item()}")
