"""A contextual bandit: the policy draws an arm, and learns from what it earned."""

import torch
from torch import nn
from torch.distributions import Categorical


class Bandit:
    def __init__(self, arms: int, features: int) -> None:
        self.worth = torch.randn(features, arms)

    def ask(self, rows: int) -> torch.Tensor:
        self.context = torch.randn(rows, self.worth.shape[0])
        return self.context

    def pull(self, arm: torch.Tensor) -> torch.Tensor:
        return (self.context @ self.worth).gather(1, arm[:, None]).squeeze(1)


def main() -> None:
    torch.manual_seed(0)
    bandit = Bandit(arms=4, features=6)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    baseline = 0.0
    for step in range(30):
        choice = Categorical(logits=policy(bandit.ask(64)))
        arm = choice.sample()
        earned = bandit.pull(arm)
        advantage = earned - baseline
        baseline = 0.9 * baseline + 0.1 * earned.mean().item()
        loss = (choice.log_prob(arm) * advantage).mean()  # ORIGIN
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(step, round(earned.mean().item(), 2))


main()
