"""PPO on a one-step steering task. Everything that is per sample has shape (N, 1): advantages, ratios, values."""
import torch
from torch import nn
from torch.distributions import Normal


class ActorCritic(nn.Module):
    def __init__(self, obs=3, act=1):
        super().__init__()
        self.mu = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, act))
        self.log_std = nn.Parameter(torch.full((1, act), -0.5))
        self.value = nn.Sequential(nn.Linear(obs, 32), nn.Tanh(), nn.Linear(32, 1))

    def dist(self, obs):
        return Normal(self.mu(obs), self.log_std.exp())


def reward_of(obs, act):
    wanted = obs[:, :1] - 0.5 * obs[:, 1:2]
    return -(act - wanted).square()                      # (N, 1), always negative


@torch.no_grad()
def collect(agent, n):
    obs = torch.randn(n, 3)
    d = agent.dist(obs)
    act = d.sample()
    return obs, act, d.log_prob(act), reward_of(obs, act), agent.value(obs)


torch.manual_seed(0)
agent = ActorCritic()
optim = torch.optim.Adam(agent.parameters(), lr=3e-3)
CLIP, EPOCHS = 0.2, 4

for it in range(20):
    obs, act, logp_old, ret, v_old = collect(agent, 256)
    adv = ret - v_old
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    for _ in range(EPOCHS):
        for rows in torch.randperm(256).chunk(4):
            d = agent.dist(obs[rows])
            ratio = (d.log_prob(act[rows]) - logp_old[rows]).exp()
            surrogate = torch.min(ratio * adv[rows], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[rows])
            v = agent.value(obs[rows])
            v_clipped = v_old[rows] + (v - v_old[rows]).clamp(-CLIP, CLIP)
            v_loss = torch.max((v - ret[rows]) ** 2, (v_clipped - ret[rows]) ** 2)
            loss = -surrogate.mean() + 0.5 * v_loss.mean() - 1e-3 * d.entropy().mean()
            optim.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optim.step()
    if it % 5 == 4:
        print(f"iteration {it:2d} mean reward {ret.mean().item():.3f} std {agent.log_std.exp().item():.2f}")
