"""RealNVP on a two-dimensional banana; the likelihood may exceed 1, so the loss may be negative."""
import math

import torch
from torch import Tensor, nn


class Coupling(nn.Module):
    mask: Tensor

    def __init__(self, mask: list[float], width: int = 32) -> None:
        super().__init__()
        self.register_buffer("mask", torch.tensor(mask))
        self.net = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 4))
        nn.init.zeros_(self.net[-1].weight)      # every layer starts as the identity
        nn.init.zeros_(self.net[-1].bias)

    def shift_scale(self, kept: Tensor) -> tuple[Tensor, Tensor]:
        s, t = self.net(kept).chunk(2, dim=-1)
        free = 1 - self.mask
        return torch.tanh(s) * free, t * free

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        s, t = self.shift_scale(x * self.mask)
        return x * s.exp() + t, s.sum(-1)

    def inverse(self, z: Tensor) -> Tensor:
        s, t = self.shift_scale(z * self.mask)
        return (z - t) * (-s).exp()


class Flow(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Coupling([1.0, 0.0] if k % 2 else [0.0, 1.0]) for k in range(depth))

    def log_prob(self, x: Tensor) -> Tensor:
        total = x.new_zeros(len(x))
        for layer in self.layers:
            x, logdet = layer(x)
            total = total + logdet
        return total - 0.5 * x.square().sum(-1) - math.log(2 * math.pi)

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        z = torch.randn(n, 2)
        for layer in reversed(self.layers):
            z = layer.inverse(z)
        return z


def banana(n: int) -> Tensor:
    a = 0.3 * torch.randn(n)
    return torch.stack([a, 2 * a.square() + 0.05 * torch.randn(n)], dim=1)


if __name__ == "__main__":
    torch.manual_seed(30)
    flow = Flow(4)
    opt = torch.optim.Adam(flow.parameters(), lr=5e-3)
    for step in range(151):
        nll = -flow.log_prob(banana(128)).mean()
        opt.zero_grad()
        nll.backward()
        opt.step()
        if step % 50 == 0:
            print(f"step {step:3d}  nll {nll.item():+.3f}")
    x = flow.sample(300)
    z = x
    with torch.no_grad():
        for layer in flow.layers:
            z, _ = layer(z)
        for layer in reversed(flow.layers):
            z = layer.inverse(z)
    print("round trip ok:", torch.allclose(x, z, atol=1e-4), " mean", [round(v, 2) for v in x.mean(0).tolist()])
