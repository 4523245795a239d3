"""Rare-event detector; early precision is 0/0 and a per-class rate divides by zero, both only for the log."""
import math

import torch
from torch import nn

torch.manual_seed(41)
CLASSES = 4


def events(n):
    label = torch.multinomial(torch.tensor([0.7, 0.2, 0.1, 0.0]), n, replacement=True)
    return torch.randn(n, 6) + 1.5 * nn.functional.one_hot(label, 6), label


@torch.no_grad()
def report(logits, label):
    guess = logits.argmax(1)
    hits = torch.stack([((guess == c) & (label == c)).sum() for c in range(CLASSES)]).float()
    predicted = torch.bincount(guess, minlength=CLASSES)
    actual = torch.bincount(label, minlength=CLASSES)
    precision = hits / predicted                       # nan where a class was never predicted
    recall = hits / actual                             # nan for the class that does not occur
    lift = precision / (actual / len(label))           # inf or nan
    shown = torch.where(actual > 0, lift, torch.zeros_like(lift))
    return precision, recall, shown


net = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, CLASSES))
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
history = []
for step in range(61):
    x, label = events(48)
    logits = net(x)
    loss = nn.functional.cross_entropy(logits, label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    precision, recall, lift = report(logits, label)
    history.append(precision.mean().item())
    if step % 15 == 0:
        print(f"step {step:2d} loss {loss.item():.3f}", *(f"{p:.2f}/{r:.2f}" for p, r in zip(precision, recall)))
print("steps with an undefined mean precision:", sum(math.isnan(h) for h in history))
