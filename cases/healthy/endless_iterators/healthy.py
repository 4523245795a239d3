"""Steps instead of epochs: both loaders are restarted when they run out, the smaller one far more often."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Endless:
    def __init__(self, loader):
        self.loader = loader
        self.it = iter(loader)
        self.rounds = 0

    def next(self):
        try:
            return next(self.it)
        except StopIteration:
            self.rounds += 1
            self.it = iter(self.loader)
            return next(self.it)


def cycle(loader):
    while True:
        yield from loader


def main():
    torch.manual_seed(25)
    w = torch.randn(10)
    source = torch.randn(500, 10)
    target = torch.randn(70, 10) + 0.5
    source_set = TensorDataset(source, source @ w / 3)
    target_set = TensorDataset(target, target @ w / 3 + 0.3)
    big = Endless(DataLoader(source_set, batch_size=50, shuffle=True))
    small = cycle(DataLoader(target_set, batch_size=32, shuffle=True, drop_last=True))

    trunk = nn.Sequential(nn.Linear(10, 32), nn.ReLU())
    heads = nn.ModuleDict({"source": nn.Linear(32, 1), "target": nn.Linear(32, 1)})
    opt = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=5e-3)
    for step in range(60):
        xs, ys = big.next()
        xt, yt = next(small)
        loss_s = (heads["source"](trunk(xs)).squeeze(1) - ys).square().mean()
        loss_t = (heads["target"](trunk(xt)).squeeze(1) - yt).square().mean()
        opt.zero_grad()
        (loss_s + loss_t).backward()
        opt.step()
        if step % 15 == 0:
            print(f"step {step}: source {loss_s.item():.3f} target {loss_t.item():.3f} rounds {big.rounds}")


main()
