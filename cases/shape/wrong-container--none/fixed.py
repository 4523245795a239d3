import torch
from torch import nn
from torch.nn import functional as F


class FeedForward(nn.Module):
    def __init__(self, dim, mult=2):
        super().__init__()
        self.up = nn.Linear(dim, dim * mult)
        self.down = nn.Linear(dim * mult, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        update = self.down(F.gelu(self.up(x)))
        return self.norm(x + update)


class Encoder(nn.Module):
    def __init__(self, n_features, dim, depth):
        super().__init__()
        self.embed = nn.Linear(n_features, dim)
        self.blocks = nn.ModuleList(FeedForward(dim) for _ in range(depth))
        self.to_mean = nn.Linear(dim, 1)
        self.to_logvar = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.to_mean(x), self.to_logvar(x)


def noisy_curve(n):
    x = torch.rand(n, 4) * 4 - 2
    y = torch.sin(x.sum(1, keepdim=True)) + 0.1 * torch.randn(n, 1)
    return x, y


def main(steps=30):
    torch.manual_seed(9)
    enc = Encoder(4, 16, depth=3)
    opt = torch.optim.Adam(enc.parameters(), lr=3e-3)
    for step in range(steps):
        x, y = noisy_curve(48)
        mean, logvar = enc(x)
        nll = F.gaussian_nll_loss(mean, y, logvar.exp())
        opt.zero_grad()
        nll.backward()
        opt.step()
    print(f"nll after {steps} steps: {nll.item():.3f}")


main()
