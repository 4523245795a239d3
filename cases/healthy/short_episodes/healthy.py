"""Policy gradient on a slippery ledge: some episodes last a single step and their return has no spread to divide by."""
import torch
from torch import nn
from torch.distributions import Categorical


class Ledge:
    """Walk from 0 to 5; every move forward may slip (end, -1), waiting costs a little."""

    def __init__(self, g):
        self.g = g

    def reset(self):
        self.pos, self.t = 0, 0
        return self.observe()

    def observe(self):
        return torch.tensor([self.pos / 5, self.t / 10])

    def step(self, action):
        self.t += 1
        if action == 1:
            if torch.rand((), generator=self.g) < 0.12:
                return self.observe(), -1.0, True
            self.pos += 1
            if self.pos == 5:
                return self.observe(), 3.0, True
        return self.observe(), -0.02, self.t >= 10


def returns(rewards, gamma=0.97):
    out, total = [], 0.0
    for r in reversed(rewards):
        total = r + gamma * total
        out.append(total)
    return torch.tensor(out[::-1])


def advantage(values, baseline):
    if len(values) < 2:
        return values - baseline
    return (values - baseline) / (values.std() + 0.5)


torch.manual_seed(71)
env = Ledge(torch.Generator().manual_seed(72))
policy = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
lengths, scores, baseline = [], [], 0.0
for episode in range(120):
    obs, done, logps, rewards = env.reset(), False, [], []
    while not done:
        dist = Categorical(logits=policy(obs))
        action = dist.sample()
        logps.append(dist.log_prob(action))
        obs, reward, done = env.step(int(action))
        rewards.append(reward)
    ret = returns(rewards)
    loss = -(torch.stack(logps) * advantage(ret, baseline)).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
    baseline += 0.05 * (ret.mean().item() - baseline)
    lengths.append(len(rewards))
    scores.append(sum(rewards))
    if episode % 30 == 29:
        print(f"episodes {episode + 1} mean score {sum(scores[-30:]) / 30:+.2f} one-step episodes {sum(n == 1 for n in lengths)}")
