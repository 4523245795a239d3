"""How many boats come into the harbour in an hour, from the tide and the wind."""
import numpy as np
import torch
from torch import nn


def logbook(hours, seed):
    rng = np.random.default_rng(seed)
    weather = rng.normal(size=(hours, 3)).astype("float32")
    boats = rng.poisson(np.exp(0.4 * weather[:, 0] - 0.2 * weather[:, 1]) * 3)  # ORIGIN
    return weather, boats


def main():
    torch.manual_seed(6)
    weather, boats = logbook(400, seed=7)
    weather = torch.from_numpy(weather)
    boats = torch.from_numpy(boats)
    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_of = nn.HuberLoss(delta=3.0)
    for epoch in range(10):
        for rows in torch.randperm(400).split(50):
            loss = loss_of(model(weather[rows]).squeeze(1), boats[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}")


main()
