"""Advantage actor-critic with masked actions; rollouts come from a generator."""
import torch
from torch import nn
from torch.distributions import Categorical

WIDTH = 6           # cells 0..5, goal at 5
LEFT, STAY, RIGHT = 0, 1, 2


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(WIDTH, 32), nn.Tanh())
        self.pi = nn.Linear(32, 3)
        self.v = nn.Linear(32, 1)

    def forward(self, obs, allowed):
        h = self.trunk(obs)
        logits = self.pi(h).masked_fill(~allowed, float("-inf"))  # impossible moves have probability 0
        return Categorical(logits=logits), self.v(h).squeeze(-1)


def observe(cells):
    allowed = torch.ones(len(cells), 3, dtype=torch.bool)
    allowed[:, LEFT] = cells > 0
    return torch.eye(WIDTH)[cells], allowed


def rollouts(policy, n_env=8, horizon=12):
    """Yield time-major batches; the environments keep going where they stopped."""
    cells = torch.zeros(n_env, dtype=torch.long)
    while True:
        logps, values, entropies, rewards, ends = [], [], [], [], []
        for _ in range(horizon):
            dist, value = policy(*observe(cells))
            act = dist.sample()
            cells = cells + act - 1
            won = cells == WIDTH - 1
            rewards.append(won.float() - 0.05)
            ends.append(won)
            cells = torch.where(won, torch.zeros_like(cells), cells)
            logps.append(dist.log_prob(act))
            values.append(value)
            entropies.append(dist.entropy())
        with torch.no_grad():
            _, bootstrap = policy(*observe(cells))
        yield tuple(map(torch.stack, (logps, values, entropies, rewards, ends))) + (bootstrap,)


def discounted(rewards, ends, bootstrap, gamma=0.95):
    out, acc = [], bootstrap
    for r, e in zip(reversed(rewards), reversed(ends)):
        acc = r + gamma * acc * (~e)
        out.append(acc)
    return torch.stack(out[::-1])


torch.manual_seed(2)
policy = Policy()
opt = torch.optim.RMSprop(policy.parameters(), lr=3e-3)
stream = rollouts(policy)
for update in range(46):
    logp, value, entropy, reward, end, bootstrap = next(stream)
    ret = discounted(reward, end, bootstrap)
    advantage = (ret - value).detach()
    actor = -(logp * advantage).mean()
    critic = 0.5 * (ret - value).square().mean()
    loss = actor + critic - 0.01 * entropy.mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
    opt.step()
    if update % 15 == 0:
        print(f"update {update:2d}  reward/step {reward.mean().item():+.3f}  loss {loss.item():+.3f}")
