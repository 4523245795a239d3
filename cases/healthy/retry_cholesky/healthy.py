"""Gaussian-process regression by marginal likelihood; a repeated measurement makes the kernel singular, jitter mends it."""
import math

import torch
from torch import nn


def safe_cholesky(K, tries=(0.0, 1e-5, 1e-4, 1e-3)):
    for attempt, jitter in enumerate(tries):
        try:
            return torch.linalg.cholesky(K + jitter * torch.eye(len(K))), attempt
        except torch.linalg.LinAlgError:
            continue
    raise RuntimeError("kernel matrix is hopeless")


class GP(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_length = nn.Parameter(torch.tensor(1.2))
        self.log_scale = nn.Parameter(torch.tensor(0.5))
        self.log_noise = nn.Parameter(torch.tensor(-9.0))
        self.retries = 0

    def kernel(self, a, b):
        d = (a[:, None] - b[None, :]) / self.log_length.exp()
        return self.log_scale.exp() * torch.exp(-0.5 * d.square())

    def factor(self, x):
        K = self.kernel(x, x) + self.log_noise.exp().square() * torch.eye(len(x))
        L, attempt = safe_cholesky(K)
        self.retries += attempt
        return L

    def nll(self, x, y):
        L = self.factor(x)
        alpha = torch.cholesky_solve(y[:, None], L).squeeze(1)
        return 0.5 * y @ alpha + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)

    def predict(self, x, y, new):
        alpha = torch.cholesky_solve(y[:, None], self.factor(x))
        return (self.kernel(new, x) @ alpha).squeeze(1)


torch.manual_seed(150)
x = torch.linspace(-3, 3, 24)
x[5] = x[4]
y = torch.sin(1.5 * x) + 0.05 * torch.randn(24)

gp = GP()
opt = torch.optim.Adam(gp.parameters(), lr=0.05)
for step in range(121):
    loss = gp.nll(x, y) / len(x)
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(gp.parameters(), 5.0)
    opt.step()
    if step % 30 == 0:
        print(f"step {step:3d} nll/n {loss.item():+.3f} length {gp.log_length.exp().item():.2f} retries so far {gp.retries}")

with torch.no_grad():
    new = torch.tensor([-2.0, 0.3, 1.7])
    print("error", [round(v, 2) for v in (gp.predict(x, y, new) - torch.sin(1.5 * new)).tolist()])
