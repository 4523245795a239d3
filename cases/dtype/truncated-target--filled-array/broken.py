import random

import torch
from torch import nn

from ageing import samples_of


class Cellar:
    def __init__(self, seed=6):
        self.rnd = random.Random(seed)

    def log(self, count):
        for _ in range(count):
            day = self.rnd.randint(5, 120)
            humidity, celsius = self.rnd.gauss(0.0, 1.0), self.rnd.gauss(0.0, 1.0)
            best = 0.9 + 0.6 * day / 120 - 0.2 * abs(celsius) + 0.1 * humidity
            tasters = [min(max(best + self.rnd.gauss(0, 0.1), 0.0), 1.9) for _ in range(3)]
            yield {"day": day, "humidity": humidity, "celsius": celsius, "tasters": tasters}


def fit(inputs, score, rounds=6, size=50):
    model = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for number in range(rounds):
        for rows in torch.randperm(len(inputs)).split(size):
            loss = nn.functional.l1_loss(model(inputs[rows]), score[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"round {number}: {loss.item():.3f}")
    return model


if __name__ == "__main__":
    torch.manual_seed(1)
    log = list(Cellar().log(400))
    inputs, score = samples_of(log)
    fit(torch.from_numpy(inputs), torch.from_numpy(score))
