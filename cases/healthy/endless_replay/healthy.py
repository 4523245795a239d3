"""A buffer that fills while an agent learns; an endless generator draws from it, some batches in each round."""
import random
from collections import deque

import torch
from torch import nn


def replay(buffer, size, rnd):
    while True:
        chosen = rnd.sample(buffer, size)
        yield torch.stack([s for s, _ in chosen]), torch.tensor([a for _, a in chosen])


def demonstrate(rnd):
    """an expert steers left, right or straight on from where the road is"""
    road = rnd.uniform(-1.5, 1.5)
    action = 0 if road < -0.5 else 2 if road > 0.5 else 1
    return torch.tensor([road, road * road, rnd.gauss(0, 0.3)]), action


rnd = random.Random(8)
torch.manual_seed(8)
buffer = deque(maxlen=300)
batches = replay(buffer, 32, rnd)
policy = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 3))
opt = torch.optim.Adam(policy.parameters(), lr=5e-3)
for round_ in range(6):
    buffer.extend(sorted((demonstrate(rnd) for _ in range(60)), key=lambda pair: pair[1]))
    for step, (states, actions) in enumerate(batches):
        loss = nn.functional.cross_entropy(policy(states), actions)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step == 7:
            break
    print(f"round {round_}: {len(buffer)} in the buffer, loss {loss.item():.3f}")
