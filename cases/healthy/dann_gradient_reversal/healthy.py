"""Domain-adversarial training. The reversal layer's backward is deliberately not the derivative of its forward."""
import math

import torch
from torch import nn


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lam):
        ctx.lam = lam
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.neg() * ctx.lam, None


class DANN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.label = nn.Linear(16, 2)
        self.domain = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, lam):
        f = self.features(x)
        return self.label(f), self.domain(Reverse.apply(f, lam)).squeeze(1)


def source(n):
    x = torch.randn(n, 6)
    return x, (x[:, 0] + x[:, 1] > 0).long()


def target(n):
    x, y = source(n)
    x = x.clone()
    x[:, 5] += 1.5          # a shifted nuisance feature gives the domain away
    return x, y


def main():
    torch.manual_seed(14)
    model, steps = DANN(), 120
    opt = torch.optim.Adam(model.parameters(), lr=3e-3)
    ce, bce = nn.CrossEntropyLoss(), nn.BCEWithLogitsLoss()
    for step in range(steps):
        lam = 2 / (1 + math.exp(-10 * step / steps)) - 1     # 0 in the first step
        (xs, ys), (xt, _) = source(32), target(32)
        cls, dom = model(torch.cat([xs, xt]), lam)
        is_target = torch.cat([torch.zeros(32), torch.ones(32)])
        l_cls, l_dom = ce(cls[:32], ys), bce(dom, is_target)
        opt.zero_grad()
        (l_cls + l_dom).backward()
        opt.step()
        if step % 30 == 0 or step == steps - 1:
            print(f"{step:3d} lam {lam:.2f} class {l_cls.item():.3f} domain {l_dom.item():.3f}")
    model.eval()
    with torch.no_grad():
        x, y = target(400)
        print(f"target accuracy {(model(x, 0.0)[0].argmax(1) == y).float().mean():.2f}")


main()
