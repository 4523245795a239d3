"""A contextual bandit that explores less and less."""
import torch
from torch import nn

PRIZES = torch.tensor([0.1, 0.9, 0.4, 0.2, 0.6, 0.3])


class Bandit(nn.Module):
    def __init__(self, arms=6):
        super().__init__()
        self.value = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, arms))

    def forward(self, ctx):
        return self.value(ctx)


class Schedule:
    def __init__(self, start, end, steps):
        self.start, self.end, self.steps = start, end, steps

    def at(self, step):
        frac = min(step / self.steps, 1.0)
        return self.start + frac * (self.end - self.start)


def choose(values, temperature):
    probs = torch.softmax(values / temperature, dim=-1)  # ORIGIN
    return torch.multinomial(probs, 1).squeeze(-1)


def pull(ctx, arm):
    return (PRIZES[arm] + 0.2 * ctx[:, 0] > torch.rand(len(arm))).float()


def main():
    torch.manual_seed(0)
    agent = Bandit()
    opt = torch.optim.Adam(agent.parameters(), lr=5e-3)
    temperature = Schedule(1.0, 0.0, 250)
    for step in range(400):
        ctx = torch.randn(32, 4)
        values = agent(ctx)
        with torch.no_grad():
            arm = choose(values, temperature.at(step))
        reward = pull(ctx, arm)
        picked = values.gather(1, arm[:, None]).squeeze(1)
        loss = nn.functional.mse_loss(picked, reward)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(step, f"reward {reward.mean():.2f}")


main()
