# Denoising diffusion on 2-D moons, noise prediction, written with closures instead of classes.
import math
import torch
from torch import nn
import torch.nn.functional as F


def make_moons(gen):
    def draw(n):
        t = torch.rand(n, generator=gen) * math.pi
        up = torch.rand(n, generator=gen) < 0.5
        x = torch.where(up, t.cos(), 1 - t.cos())
        y = torch.where(up, t.sin(), 0.5 - t.sin())
        pts = torch.stack([x - 0.5, y - 0.25], dim=-1)
        return pts + 0.05 * torch.randn(n, 2, generator=gen)
    return draw


def make_schedule(T):
    beta = torch.linspace(1e-3, 0.15, T)
    abar = torch.cumprod(1 - beta, dim=0)

    def noise_to(x0, t, eps):
        a = abar[t].unsqueeze(-1)          # (N, 1) against (N, 2)
        return a.sqrt() * x0 + (1 - a).sqrt() * eps

    def sample_back(eps_fn, n):
        x = torch.randn(n, 2)
        for t in reversed(range(T)):
            eps = eps_fn(x, torch.full((n,), t))
            x = (x - beta[t] / (1 - abar[t]).sqrt() * eps) / (1 - beta[t]).sqrt()
            if t > 0:
                x = x + beta[t].sqrt() * torch.randn_like(x)
        return x

    return noise_to, sample_back


def make_denoiser(T, width=64, bands=4):
    net = nn.Sequential(nn.Linear(2 + 2 * bands, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))
    freq = 2.0 ** torch.arange(bands)

    def eps_fn(x, t):
        phase = (t.float() / T).unsqueeze(-1) * freq * math.pi
        return net(torch.cat([x, phase.sin(), phase.cos()], dim=-1))

    return eps_fn, list(net.parameters())


torch.manual_seed(0)
T = 30
draw = make_moons(torch.Generator().manual_seed(1))
noise_to, sample_back = make_schedule(T)
eps_fn, weights = make_denoiser(T)
opt = torch.optim.AdamW(weights, lr=3e-3)

running = None
for step in range(200):
    x0 = draw(128)
    t = torch.randint(0, T, (len(x0),))
    eps = torch.randn_like(x0)
    loss = F.mse_loss(eps_fn(noise_to(x0, t, eps), t), eps)
    opt.zero_grad()
    loss.backward()
    opt.step()
    running = loss.item() if running is None else 0.95 * running + 0.05 * loss.item()
    if step % 66 == 0:
        print(f"{step:3d} {running:.3f}")

with torch.no_grad():
    pts = sample_back(eps_fn, 256)
print("sampled spread", [round(v, 2) for v in pts.std(0).tolist()])
