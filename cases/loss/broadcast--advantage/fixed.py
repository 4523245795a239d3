import torch
import torch.nn as nn
from torch.distributions import Categorical

torch.manual_seed(7)
N_ENVS, HORIZON, GAMMA = 16, 8, 0.9
MOVES = torch.tensor([-0.2, 0.0, 0.2])


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))
        self.critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, obs):
        return Categorical(logits=self.actor(obs)), self.critic(obs)


def rollout(policy):
    """16 carts on a line that should stay close to the middle."""
    pos = torch.rand(N_ENVS) * 2 - 1
    obs_buf, act_buf, rew_buf = [], [], []
    for t in range(HORIZON):
        obs = torch.stack([pos, torch.full_like(pos, t / HORIZON)], dim=1)
        with torch.no_grad():
            action = policy(obs)[0].sample()
        pos = (pos + MOVES[action]).clamp(-1, 1)
        obs_buf.append(obs)
        act_buf.append(action)
        rew_buf.append(-pos.abs())
    ret = torch.zeros(N_ENVS)
    returns = []
    for r in reversed(rew_buf):
        ret = r + GAMMA * ret
        returns.insert(0, ret)
    return torch.cat(obs_buf), torch.cat(act_buf), torch.cat(returns), torch.stack(rew_buf).mean()


agent = ActorCritic()
optim = torch.optim.Adam(agent.parameters(), lr=1e-2)

for update in range(40):
    obs, actions, returns, mean_reward = rollout(agent)
    dist, values = agent(obs)
    advantage = returns - values.squeeze(-1)
    policy_loss = -(dist.log_prob(actions) * advantage.detach()).mean()
    value_loss = advantage.pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()

    optim.zero_grad()
    loss.backward()
    optim.step()
    if update % 5 == 0 or update == 39:
        print(f"update {update:2d} reward {mean_reward:.3f} value loss {value_loss.item():.3f}")
