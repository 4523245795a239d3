import torch
import torch.nn as nn
from torch.distributions import Normal


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
        self.critic = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def policy(self, state):
        return Normal(self.actor(state), self.log_std.exp())


@torch.no_grad()
def rollout(agent, n=128):
    state = torch.randn(n, 3)
    action = agent.policy(state).sample()
    earned = -(action.squeeze(-1) - state[:, 0]).pow(2)
    advantage = earned - agent.critic(state).squeeze(-1)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    return state, action, agent.policy(state).log_prob(action).sum(-1), earned, advantage


def update(agent, optimizer, state, action, old, earned, advantage, clip=0.2):
    policy = agent.policy(state)
    ratio = torch.exp(policy.log_prob(action).sum(-1) - old)
    plain, clipped = ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage
    policy_loss = torch.min(plain, clipped).mean()  # ORIGIN
    value_loss = (agent.critic(state).squeeze(-1) - earned).pow(2).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * policy.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


torch.manual_seed(0)
agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
for iteration in range(12):
    batch = rollout(agent)
    for _ in range(3):
        update(agent, optimizer, *batch)
    print(iteration, round(batch[3].mean().item(), 3))
