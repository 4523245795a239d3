"""How long until the lift is here? Its value is learnt step by step, against a network that is held back."""

import random
from copy import deepcopy

import torch
from torch import nn

FLOORS, GAMMA, SYNC_EVERY = 8, 0.9, 25


class Lift:
    """It wanders between floors, and a call is answered when it stands at the floor of the caller."""

    def __init__(self, rng):
        self.rng = rng
        self.reset()

    def reset(self):
        self.floor, self.caller = self.rng.randrange(FLOORS), self.rng.randrange(FLOORS)
        return self.observe()

    def observe(self):
        seen = [0.0] * (2 * FLOORS)
        seen[self.floor] = seen[FLOORS + self.caller] = 1.0
        return seen

    def move(self):
        towards = 1 if self.caller > self.floor else -1
        self.floor += towards if self.rng.random() < 0.7 else -towards
        self.floor = min(max(self.floor, 0), FLOORS - 1)
        here = self.floor == self.caller
        return self.observe(), (0.0 if here else -1.0), here


def recorded(lift, count):
    rows, before = [], lift.reset()
    while len(rows) < count:
        after, cost, here = lift.move()
        rows.append((before, cost, after, float(here)))
        before = lift.reset() if here else after
    return rows


def refresh(target, network):
    for held, current in zip(target.parameters(), network.parameters(), strict=True):
        held.data = current.data  # ORIGIN


random.seed(21)
torch.manual_seed(21)
memory = recorded(Lift(random.Random(3)), 1500)
value = nn.Sequential(nn.Linear(2 * FLOORS, 40), nn.Tanh(), nn.Linear(40, 1), nn.Flatten(0))
frozen = deepcopy(value).requires_grad_(False)
optimizer = torch.optim.RMSprop(value.parameters(), lr=1e-3)
errors = []
for step in range(1, 151):
    before, cost, after, here = (torch.tensor(column) for column in zip(*random.sample(memory, 48), strict=True))
    with torch.no_grad():
        bootstrapped = cost + GAMMA * (1 - here) * frozen(after)
    loss = nn.functional.mse_loss(value(before), bootstrapped)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    errors.append(loss.item())
    if step % SYNC_EVERY == 0:
        refresh(frozen, value)
        print(f"step {step:3d}: squared error {sum(errors[-SYNC_EVERY:]) / SYNC_EVERY:.3f}")
