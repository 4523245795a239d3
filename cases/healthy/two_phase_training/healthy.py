# Phase 1 learns a representation (encoder + decoder), phase 2 throws the decoder away and
# trains encoder + classifier, phase 3 calibrates a single temperature on held-out data.
# Every phase has an optimizer of its own.
import argparse

import torch
from torch import nn
from torch.nn import functional as F


def sample(n):
    y = torch.randint(0, 4, (n,))
    base = F.one_hot(y, 4).float() @ W
    return base + 0.8 * torch.randn(n, 16), y


def phase(title, steps, optimizer, compute):
    first = last = None
    for _ in range(steps):
        loss = compute()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = last if first is None else first
    print(f"{title:<12}{first:8.4f} ->{last:8.4f}")


parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--seed", type=int, default=2)
args = parser.parse_args()
torch.manual_seed(args.seed)
W = torch.randn(4, 16)

encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
decoder = nn.Sequential(nn.ReLU(), nn.Linear(8, 16))
classifier = nn.Sequential(nn.ReLU(), nn.Linear(8, 4))
temperature = nn.Parameter(torch.ones(1))


def reconstruct():
    x, _ = sample(64)
    return F.mse_loss(decoder(encoder(x)), x)


def classify():
    x, y = sample(64)
    return F.cross_entropy(classifier(encoder(x)), y)


with torch.no_grad():
    held_x, held_y = sample(400)


def calibrate():
    with torch.no_grad():
        logits = classifier(encoder(held_x))
    return F.cross_entropy(logits / temperature, held_y)


phase("reconstruct", args.steps, torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=5e-3), reconstruct)
del decoder
phase("classify", args.steps, torch.optim.Adam([{"params": encoder.parameters(), "lr": 1e-3}, {"params": classifier.parameters()}], lr=5e-3), classify)
phase("calibrate", 30, torch.optim.SGD([temperature], lr=0.1), calibrate)
print(f"temperature {temperature.item():.3f}")
