"""REINFORCE with a Gaussian policy on a cart that must stay in its corridor."""
import torch
from torch import nn
from torch.distributions import Normal


class Corridor:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def reset(self, width):
        self.width = width
        self.x = torch.zeros(2)
        return self.x.clone()

    def step(self, push):
        gust = torch.randn((), generator=self.g) * 0.2
        self.x = torch.stack([self.x[0] + 0.3 * push + gust, push])
        done = bool(self.x[0].abs() > self.width)
        return self.x.clone(), 1.0 - self.x[0].abs().item(), done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.log_std = nn.Parameter(torch.tensor(-0.5))

    def forward(self, obs):
        return Normal(self.mean(obs).squeeze(-1), self.log_std.exp())


def rollout(env, policy, width, horizon=20):
    obs, log_probs, rewards = env.reset(width), [], []
    for _ in range(horizon):
        dist = policy(obs)
        action = dist.sample()
        log_probs.append(dist.log_prob(action))
        obs, reward, done = env.step(action)
        rewards.append(reward)
        if done:
            break
    return torch.stack(log_probs), rewards


def advantages(rewards, gamma=0.95):
    returns, running = [], 0.0
    for r in reversed(rewards):
        running = r + gamma * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    spread = returns.std()  # ORIGIN
    return (returns - returns.mean()) / (spread + 1e-8)


torch.manual_seed(16)
env, policy = Corridor(seed=4), Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
for episode in range(25):
    log_probs, rewards = rollout(env, policy, width=1.5 / (1 + 0.2 * episode))
    loss = -(log_probs * advantages(rewards)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"episode {episode}: {len(rewards)} steps, return {sum(rewards):.2f}")
