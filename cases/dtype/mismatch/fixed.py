"""Q-learning on a five-cell corridor; the goal is the right end."""
import random

import torch
from torch import nn


class ReplayBuffer:
    def __init__(self, capacity, n_cells):
        self.state = torch.zeros(capacity, n_cells)
        self.action = torch.zeros(capacity, dtype=torch.long)
        self.reward = torch.zeros(capacity)
        self.next_state = torch.zeros(capacity, n_cells)
        self.size, self.capacity = 0, capacity

    def push(self, s, a, r, s2):
        i = self.size % self.capacity
        self.state[i], self.action[i], self.reward[i], self.next_state[i] = s, a, r, s2
        self.size += 1

    def sample(self, k):
        idx = torch.randint(min(self.size, self.capacity), (k,))
        return self.state[idx], self.action[idx], self.reward[idx], self.next_state[idx]


N = 5
random.seed(0)
torch.manual_seed(0)
cells = torch.eye(N)
qnet = nn.Sequential(nn.Linear(N, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = torch.optim.Adam(qnet.parameters(), lr=1e-2)
buffer = ReplayBuffer(200, N)


def learn(gamma=0.9):
    s, a, r, s2 = buffer.sample(16)
    with torch.no_grad():
        target = r + gamma * qnet(s2).max(1).values
    q = qnet(s).gather(1, a.unsqueeze(1)).squeeze(1)
    loss = (q - target).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


errors = 0
pos = 0
for t in range(120):
    a = random.randrange(2)
    new = min(N - 1, pos + 1) if a else max(0, pos - 1)
    buffer.push(cells[pos], a, float(new == N - 1), cells[new])
    pos = 0 if new == N - 1 else new
    if t >= 32:
        try:
            learn()
        except RuntimeError as exc:
            errors += 1
            if errors == 1:
                print("learn() failed at t =", t, "-", exc)
print("transitions:", buffer.size, "failed updates:", errors)
