"""Random features from a seed, never stored; then a posterior fitted with the same noise in every evaluation, as LBFGS needs it."""
import torch
from torch import nn

torch.manual_seed(14)
x = torch.randn(256, 4)
y = torch.sin(2 * x[:, 0]) + 0.5 * x[:, 1]


def lifted(batch):
    """cosines of a fixed random projection, made anew from its seed rather than kept"""
    gen = torch.Generator().manual_seed(99)
    directions = torch.randn(4, 64, generator=gen)
    return torch.cos(batch @ directions + 0.3)


readout = nn.Linear(64, 1)
optimizer = torch.optim.Adam(readout.parameters(), lr=0.02)
for epoch in range(4):
    for rows in torch.randperm(len(x)).split(32):
        loss = nn.functional.mse_loss(readout(lifted(x[rows])).squeeze(-1), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.4f}")

mean, log_scale = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.full((4,), -1.0))
search = torch.optim.LBFGS([mean, log_scale], lr=0.5, max_iter=5)


def closure():
    search.zero_grad()
    torch.manual_seed(3)
    weights = mean + log_scale.exp() * torch.randn(16, 4)
    fit = (x @ weights.T - y[:, None]).square().mean()
    loss = fit + 0.01 * (mean.square().sum() + (2 * log_scale).exp().sum() - 2 * log_scale.sum())
    loss.backward()
    return loss


for turn in range(8):
    print(f"turn {turn}: {search.step(closure).item():.4f}")
