# Four ways of clearing gradients, all of them right. Same model, same data, so all four end alike.
import torch
from torch import nn


def batches(seed, n=30):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        x = torch.randn(32, 6, generator=g)
        yield x, x[:, :2].sum(1, keepdim=True) - 0.5 * x[:, 5:]


def fresh():
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    return net, torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)


def after_step(net, opt):
    for x, y in batches(5):
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        yield loss.item()


def by_model(net, opt):
    for x, y in batches(5):
        net.zero_grad()
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
        yield loss.item()


def by_none(net, opt):
    for x, y in batches(5):
        loss = (net(x) - y).pow(2).mean()
        for p in net.parameters():
            p.grad = None
        loss.backward()
        opt.step()
        yield loss.item()


def by_hand(net, opt):
    for x, y in batches(5):
        loss = (net(x) - y).pow(2).mean()
        loss.backward()
        opt.step()
        with torch.no_grad():
            for p in net.parameters():
                p.grad.zero_()
        yield loss.item()


def by_autograd_grad(net, opt):
    """never accumulates at all: .grad is assigned"""
    ps = list(net.parameters())
    for x, y in batches(5):
        loss = (net(x) - y).pow(2).mean()
        for p, g in zip(ps, torch.autograd.grad(loss, ps)):
            p.grad = g
        opt.step()
        yield loss.item()


ends = []
for way in (after_step, by_model, by_none, by_hand, by_autograd_grad):
    losses = list(way(*fresh()))
    ends.append(losses[-1])
    print(f"{way.__name__:<18}{losses[0]:.5f} -> {losses[-1]:.5f}")
print("all alike:", max(ends) - min(ends) < 1e-6)
