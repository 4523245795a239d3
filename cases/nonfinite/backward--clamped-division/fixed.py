"""A small DDPM on 2-D points, loss on the reconstructed x0."""
import torch
from torch import nn


class Schedule:
    def __init__(self, steps=100):
        self.steps = steps
        betas = torch.linspace(1e-4, 0.2, steps)
        self.alphas = 1.0 - betas
        self.alpha_bar = torch.cumprod(self.alphas, dim=0)

    def q_sample(self, x0, t, noise):
        ab = self.alpha_bar[t].unsqueeze(-1)
        return ab.sqrt() * x0 + (1 - ab).sqrt() * noise

    def predict_x0(self, xt, t, eps):
        ab = self.alpha_bar[t].unsqueeze(-1)
        return (xt - (1 - ab).sqrt() * eps) / ab.sqrt()


class Denoiser(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.time = nn.Embedding(100, width)
        self.inp = nn.Linear(2, width)
        self.out = nn.Sequential(nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 2))

    def forward(self, x, t):
        return self.out(self.inp(x) + self.time(t))


def swiss(n):
    a = torch.rand(n) * 9 + 1
    return torch.stack([a.cos() * a, a.sin() * a], -1) / 5


def train(iters=60, batch=16):
    torch.manual_seed(0)
    schedule, net = Schedule(), Denoiser()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for it in range(iters):
        x0 = swiss(batch)
        t = torch.randint(0, schedule.steps, (batch,))
        noise = torch.randn_like(x0)
        xt = schedule.q_sample(x0, t, noise)
        eps = net(xt, t)
        x0_hat = schedule.predict_x0(xt, t, eps).clamp(-3, 3)
        loss = (eps - noise).pow(2).mean() + 0.1 * (x0_hat - x0).abs().mean()
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if it % 50 == 0:
            print(it, loss.item())


train()
