"""Fitted Q iteration on transitions of a small random walk; the targets come from a copy that follows slowly."""
import copy
import random
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F


class Transition(NamedTuple):
    state: list[float]
    action: int
    reward: float
    after: list[float]
    ended: bool


def walk(length):
    place = 0.0
    for _ in range(length):
        action = random.randrange(2)
        after = place + (0.2 if action else -0.2) + random.gauss(0, 0.05)
        ended = abs(after) > 1
        yield Transition([place, place**2], action, 1.0 if after > 1 else -0.1, [after, after**2], ended)
        place = 0.0 if ended else after


def collate(rows):
    state, action, reward, after, ended = zip(*rows)
    return (
        torch.tensor(state),
        torch.tensor(action).unsqueeze(1),
        torch.tensor(reward),
        torch.tensor(after),
        torch.tensor(ended, dtype=torch.float32).unsqueeze(1),
    )


random.seed(5)
torch.manual_seed(5)
memory = list(walk(400))
online = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
slow = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.Adam(online.parameters(), lr=2e-3)

for step in range(120):
    state, action, reward, after, ended = collate(random.sample(memory, 24))
    with torch.no_grad():
        best = slow(after).max(dim=1, keepdim=True).values
        target = reward.unsqueeze(1) + 0.95 * (1 - ended) * best
    loss = F.smooth_l1_loss(online(state).gather(1, action), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    for mine, theirs in zip(slow.parameters(), online.parameters()):
        mine.lerp_(theirs, 0.05)
    if step % 40 == 0:
        print(f"{step:3d}  {loss.item():.4f}  next draw {random.random():.6f}")
