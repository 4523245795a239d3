"""Heights between survey points, by a small network and L-BFGS; the points go through it in chunks, to save memory."""

import torch
from torch import nn


def survey(count):
    place = torch.rand(count, 2) * 4 - 2
    east, north = place.unbind(1)
    height = torch.sin(1.5 * east) * torch.cos(north) + 0.3 * torch.exp(-(east**2) - north**2)
    return place, (height + 0.01 * torch.randn(count)).unsqueeze(1)


def fit(terrain, place, height, rounds=6, chunk=150):
    solver = torch.optim.LBFGS(terrain.parameters(), max_iter=5, history_size=10, line_search_fn="strong_wolfe")
    evaluations = 0

    def closure():
        nonlocal evaluations
        evaluations += 1
        solver.zero_grad()
        total = torch.zeros(())
        for some, right in zip(place.split(chunk), height.split(chunk), strict=True):
            part = nn.functional.mse_loss(terrain(some), right, reduction="sum") / len(place)
            part.backward()
            total += part.detach()
        return total

    for number in range(rounds):
        before = solver.step(closure)
        print(f"round {number}: began at {before.item():.5f}, {evaluations} evaluations")


torch.manual_seed(25)
terrain = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
fit(terrain, *survey(700))
with torch.no_grad():
    place, height = survey(200)
    off = (terrain(place) - height).square().mean().sqrt().item()
print(f"new points are off by {off:.3f}")
