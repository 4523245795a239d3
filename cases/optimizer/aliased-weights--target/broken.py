import random
from collections import deque

import torch
import torch.nn as nn


class QNet(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_obs, 48), nn.ReLU(), nn.Linear(48, n_act))

    def forward(self, s):
        return self.layers(s)


class Walk:
    """Walk on a line from -1 to 1, reward for being near 0.5."""

    def __init__(self):
        self.pos = 0.0

    def obs(self):
        return [self.pos, self.pos ** 2, 1.0]

    def act(self, a):
        self.pos = max(-1.0, min(1.0, self.pos + (-0.2, 0.0, 0.2)[a] + random.gauss(0, 0.05)))
        return 1.0 - abs(self.pos - 0.5)


class DQN:
    def __init__(self, model, device="cpu", gamma=0.8, lr=2e-3):
        self.policy_net = model.to(device)
        self.target_net = model.to(device)  # ORIGIN
        self.gamma = gamma
        self.memory = deque(maxlen=2000)
        self.opt = torch.optim.Adam(self.policy_net.parameters(), lr=lr)

    def remember(self, *transition):
        self.memory.append(transition)

    def learn(self, batch_size=64):
        s, a, r, s2 = (torch.tensor(v) for v in zip(*random.sample(self.memory, batch_size)))
        q = self.policy_net(s).gather(1, a[:, None]).squeeze(1)
        with torch.no_grad():
            target = r + self.gamma * self.target_net(s2).max(dim=1).values
        loss = nn.functional.smooth_l1_loss(q, target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    def sync(self):
        self.target_net.load_state_dict(self.policy_net.state_dict())


random.seed(0)
torch.manual_seed(0)
agent, env = DQN(QNet(3, 3)), Walk()
for _ in range(500):
    s, a = env.obs(), random.randrange(3)
    r = env.act(a)
    agent.remember(s, a, r, env.obs())

window = []
for step in range(1, 121):
    window.append(agent.learn())
    if step % 40 == 0:
        print(f"step {step}  td loss {sum(window) / len(window):.4f}")
        window.clear()
        agent.sync()
