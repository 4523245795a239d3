"""Sharpness-aware minimisation: climb to the worst point nearby, take the gradient there, come back, step.
The first gradient is cleared without an optimizer step, on purpose."""
import torch
from torch import nn


class SAM:
    def __init__(self, params, base, rho=0.05, **kw):
        self.params = list(params)
        self.opt = base(self.params, **kw)
        self.rho = rho
        self._shift = []

    @torch.no_grad()
    def ascend(self):
        norm = torch.stack([p.grad.norm() for p in self.params]).norm()
        self._shift = [p.grad * (self.rho / (norm + 1e-12)) for p in self.params]
        for p, e in zip(self.params, self._shift):
            p.add_(e)
            p.grad = None

    @torch.no_grad()
    def descend(self):
        for p, e in zip(self.params, self._shift):
            p.sub_(e)
        self.opt.step()
        self.opt.zero_grad()


def data(n, flip=0.05):
    x = torch.randn(n, 8)
    y = (x[:, 0] - x[:, 1] * x[:, 2] > 0).long()
    noisy = torch.rand(n) < flip
    return x, torch.where(noisy, 1 - y, y), y


def run():
    torch.manual_seed(12)
    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    sam = SAM(net.parameters(), torch.optim.SGD, rho=0.05, lr=0.1, momentum=0.9)
    ce = nn.CrossEntropyLoss()
    gap = []
    for step in range(100):
        x, y, _ = data(128)
        here = ce(net(x), y)
        here.backward()
        sam.ascend()
        there = ce(net(x), y)
        there.backward()
        sam.descend()
        gap.append(there.item() - here.item())
        if step % 20 == 0 or step == 99:
            print(f"step {step:2d} loss {here.item():.3f} sharpness {gap[-1]:+.4f}")
    net.eval()
    with torch.no_grad():
        x, _, clean = data(500)
        print(f"clean accuracy {(net(x).argmax(1) == clean).float().mean():.2f}")


run()
