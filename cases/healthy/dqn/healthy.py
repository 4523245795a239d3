import copy
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


class Corridor:
    """Seven cells; walking off the right end pays 1, every step costs a little."""

    size = 7

    def reset(self):
        self.pos, self.t = self.size // 2, 0
        return self.obs()

    def obs(self):
        return F.one_hot(torch.tensor(self.pos), self.size).float()

    def step(self, action):
        self.t += 1
        self.pos = max(0, self.pos + (1 if action == 1 else -1))
        won = self.pos == self.size
        if won:
            self.pos = self.size - 1
        return self.obs(), 1.0 if won else -0.02, won, self.t >= 25


class Replay:
    """Ring buffer. The storage is uninitialised; only rows below `filled` are ever read."""

    def __init__(self, capacity, width):
        self.s, self.s2 = torch.empty(capacity, width), torch.empty(capacity, width)
        self.a = torch.empty(capacity, dtype=torch.int64)
        self.r, self.done = torch.empty(capacity), torch.empty(capacity)
        self.capacity, self.filled, self.at = capacity, 0, 0

    def push(self, s, a, r, s2, done):
        i = self.at
        self.s[i], self.a[i], self.r[i], self.s2[i], self.done[i] = s, a, r, s2, float(done)
        self.at = (i + 1) % self.capacity
        self.filled = min(self.filled + 1, self.capacity)

    def sample(self, n):
        i = torch.randint(0, self.filled, (n,))
        return self.s[i], self.a[i], self.r[i], self.s2[i], self.done[i]


random.seed(0)
torch.manual_seed(0)
env, memory = Corridor(), Replay(256, Corridor.size)
q_net = nn.Sequential(nn.Linear(Corridor.size, 32), nn.Tanh(), nn.Linear(32, 2))
target_net = copy.deepcopy(q_net).requires_grad_(False)
optimizer = torch.optim.Adam(q_net.parameters(), lr=5e-3)
gamma, epsilon, updates, returns = 0.95, 1.0, 0, []

for episode in range(30):
    state, total, over = env.reset(), 0.0, False
    while not over:
        if random.random() < epsilon:
            action = random.randrange(2)
        else:
            with torch.no_grad():
                action = int(q_net(state).argmax())
        nxt, reward, terminal, timeout = env.step(action)
        memory.push(state, action, reward, nxt, terminal)
        state, total, over = nxt, total + reward, terminal or timeout

        if memory.filled >= 64:  # warm-up: nothing is learnt before that
            s, a, r, s2, d = memory.sample(32)
            with torch.no_grad():
                goal = r + gamma * (1 - d) * target_net(s2).max(dim=1).values
            pred = q_net(s).gather(1, a.unsqueeze(1)).squeeze(1)
            loss = F.smooth_l1_loss(pred, goal)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            updates += 1
            if updates % 20 == 0:
                target_net.load_state_dict(q_net.state_dict())
    epsilon = max(0.05, epsilon * 0.85)
    returns.append(total)

print(f"{updates} updates; mean return first 5: {sum(returns[:5]) / 5:+.2f}, last 5: {sum(returns[-5:]) / 5:+.2f}")
