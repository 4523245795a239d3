"""Learns a potential from its forces: the force is the gradient of the potential with respect to the positions."""
import torch
from torch import nn

torch.manual_seed(0)


class Potential(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.Softplus(), nn.Linear(width, 1))

    def forward(self, where):
        return self.body(where).squeeze(-1)

    def force(self, where):
        (slope,) = torch.autograd.grad(self(where).sum(), where, create_graph=True)
        return -slope


def springs(rows):
    where = torch.randn(rows, 2)  # ORIGIN
    return where, -where.detach() * torch.tensor([1.0, 4.0])


potential = Potential()
optimizer = torch.optim.Adam(potential.parameters(), lr=1e-2)
for step in range(60):
    where, pull = springs(64)
    error = (potential.force(where) - pull).square().mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
print(f"{error.item():.4f}")
