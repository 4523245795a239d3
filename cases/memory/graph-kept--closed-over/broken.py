"""Bearing wear from spectra: an inspector looks into the layers while the net is trained."""
from collections import defaultdict
from functools import partial

import torch
import torch.nn as nn
import torch.nn.functional as F


def spread_of(layer, inputs, output, *, to):
    to.append((output - output.mean(0)).square().mean())  # ORIGIN


def inspect(net, kinds=(nn.Linear,)):
    book = defaultdict(list)
    for name, layer in net.named_modules():
        if isinstance(layer, kinds):
            layer.register_forward_hook(partial(spread_of, to=book[name]))
    return lambda: {name: sum(float(each) for each in values[-10:]) / 10 for name, values in book.items()}


def spectra(n):
    wear = torch.rand(n, 1)
    bands = torch.linspace(0, 1, 200)
    return torch.exp(-((bands - wear) ** 2) / 0.02) + 0.1 * torch.randn(n, 200), wear


def main(steps=60):
    torch.manual_seed(31)
    net = nn.Sequential(nn.Linear(200, 400), nn.GELU(), nn.Linear(400, 400), nn.GELU(), nn.Linear(400, 1))
    report = inspect(net)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    for step in range(1, steps + 1):
        x, wear = spectra(128)
        loss = F.mse_loss(net(x), wear)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 20 == 0:
            print(step, round(loss.item(), 4), {name: round(each, 2) for name, each in report().items()})


if __name__ == "__main__":
    main()
