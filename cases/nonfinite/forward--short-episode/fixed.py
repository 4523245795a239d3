"""Which article next? A reader stays as long as the front page pleases; learnt from visits with REINFORCE."""

import random

import torch
from torch import nn

TOPICS = 4


class Reader:
    """Likes one topic, soon has enough of the same, and leaves with every miss a little more likely."""

    def __init__(self, rng):
        self.rng = rng
        self.taste = rng.randrange(TOPICS)
        self.shown = [0] * TOPICS
        self.patience = 0.96

    def observe(self):
        seen = [0.0] * TOPICS
        seen[self.taste] = 1.0
        return torch.tensor(seen + [each / 5 for each in self.shown])

    def show(self, topic):
        reward = (2.0 if topic == self.taste else 0.5) - 0.3 * self.shown[topic]
        self.shown[topic] += 1
        leaves = self.rng.random() > self.patience or sum(self.shown) >= 12
        self.patience -= 0.04 if reward < 0.5 else 0.0
        return reward, leaves


class FrontPage(nn.Module):
    def __init__(self, hidden=24):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(2 * TOPICS, hidden), nn.Tanh(), nn.Linear(hidden, TOPICS))

    def forward(self, reader):
        return torch.log_softmax(self.score(reader), dim=-1)


def visit(page, reader):
    picked, rewards, leaves = [], [], False
    while not leaves:
        log_probs = page(reader.observe())
        topic = int(torch.multinomial(log_probs.exp(), 1))
        picked.append(log_probs[topic])
        reward, leaves = reader.show(topic)
        rewards.append(reward)
    return torch.stack(picked), rewards


def returns_to_go(rewards, discount=0.9):
    total, result = 0.0, []
    for reward in reversed(rewards):
        total = reward + discount * total
        result.append(total)
    return torch.tensor(result[::-1])


def main():
    rng = random.Random(31)
    torch.manual_seed(31)
    page, earned = FrontPage(), []
    optimizer = torch.optim.Adam(page.parameters(), lr=5e-3)
    for number in range(1, 161):
        picked, rewards = visit(page, Reader(rng))
        returns = returns_to_go(rewards)
        advantage = (returns - returns.mean()) / (returns.std(correction=0) + 1e-6)
        loss = -(picked * advantage).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        earned.append(sum(rewards))
        if number % 40 == 0:
            print(f"visit {number}: {sum(earned[-40:]) / 40:.2f} earned on average")


if __name__ == "__main__":
    main()
