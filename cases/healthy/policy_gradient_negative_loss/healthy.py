import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_obs, 32), nn.Tanh(), nn.Linear(32, n_act))

    def forward(self, obs):
        return Categorical(logits=self.body(obs))


class Corridors:
    """64 walkers on lines of length 9; +1 for each step that ends nearer to the goal, -1 otherwise"""

    def __init__(self, n=64):
        self.n = n

    def reset(self):
        self.pos = torch.randint(0, 9, (self.n,))
        self.goal = torch.randint(0, 9, (self.n,))
        return self.observe()

    def observe(self):
        return torch.stack([self.pos / 4.0 - 1, self.goal / 4.0 - 1], dim=1)

    def step(self, action):
        before = (self.pos - self.goal).abs()
        self.pos = (self.pos + action - 1).clamp(0, 8)
        after = (self.pos - self.goal).abs()
        reward = torch.where((after < before) | (after == 0), 1.0, -1.0)
        return self.observe(), reward


def rollout(env, policy, horizon=8):
    obs, logs, rewards, entropy = env.reset(), [], [], 0.0
    for _ in range(horizon):
        dist = policy(obs)
        action = dist.sample()
        logs.append(dist.log_prob(action))
        entropy = entropy + dist.entropy().mean() / horizon
        obs, reward = env.step(action)
        rewards.append(reward)
    return torch.stack(logs), torch.stack(rewards), entropy


torch.manual_seed(0)
policy, env = Policy(2, 3), Corridors()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
for update in range(40):
    logs, rewards, entropy = rollout(env, policy)
    advantage = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    # a surrogate whose value means little: it is often negative, the return is what counts
    loss = -(logs * advantage).mean() - 0.05 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if update % 8 == 7:
        print(f"update {update + 1} surrogate {loss.item():+.4f} mean reward {rewards.mean().item():+.3f}")
