from copy import deepcopy
from typing import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp(i: int, h: int, o: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(i, h), nn.BatchNorm1d(h), nn.ReLU(), nn.Linear(h, o))


class BYOL(nn.Module):
    """The target is part of this module (so it is saved with it) but is moved by averaging, never by the optimizer."""

    def __init__(self, tau: float = 0.95) -> None:
        super().__init__()
        self.online = mlp(16, 48, 16)
        self.predictor = mlp(16, 32, 16)
        self.target = deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad_(False)
        self.tau = tau

    @torch.no_grad()
    def move_target(self) -> None:
        for slow, fast in zip(self.target.parameters(), self.online.parameters(), strict=True):
            slow.lerp_(fast, 1 - self.tau)

    def regress(self, x: Tensor, y: Tensor) -> Tensor:
        q = F.normalize(self.predictor(self.online(x)), dim=-1)
        with torch.no_grad():
            z = F.normalize(self.target(y), dim=-1)
        return (2 - 2 * (q * z).sum(-1)).mean()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.regress(x, y) + self.regress(y, x)


def pairs(steps: int, batch: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
    mix = torch.randn(5, 16)
    for _ in range(steps):
        latent = torch.randn(batch, 5)
        x = latent @ mix / 5 ** 0.5
        yield tuple(x * (torch.rand_like(x) > 0.1) + 0.1 * torch.randn_like(x) for _ in range(2))


if __name__ == "__main__":
    torch.manual_seed(3)
    net = BYOL()
    # everything that trains: online and predictor
    opt = torch.optim.AdamW([p for p in net.parameters() if p.requires_grad], lr=3e-3)
    for i, (a, b) in enumerate(pairs(90)):
        loss = net(a, b)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        net.move_target()
        if i % 22 == 0:
            lag = sum((s - f).norm().item() for s, f in zip(net.target.parameters(), net.online.parameters()))
            print(f"step {i:2d} loss {loss.item():.4f} target lag {lag:.3f}")
