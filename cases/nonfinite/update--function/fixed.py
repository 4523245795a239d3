"""What a bakery sells: gradients by torch.func, and RMSprop in one line."""
import torch
from torch.func import grad


def sold(weights, shelf):
    return torch.relu(shelf @ weights["mix"] + weights["shift"]) @ weights["out"]


def error(weights, shelf, till):
    return (sold(weights, shelf) - till).square().mean()


def rmsprop(weights, slopes, seen):
    seen = {name: 0.5 * seen[name] + 0.5 * slopes[name].square() for name in seen}
    return {name: weights[name] - 0.003 * slopes[name] / (seen[name].sqrt() + 1e-8) for name in weights}, seen


def morning(day, key):
    shelf = torch.rand(32, 4, generator=key)
    if day > 80:
        shelf[:, 0] = 0.0  # no more rye
    return shelf, shelf.sum(dim=1)


key = torch.Generator().manual_seed(3)
weights = {
    "mix": torch.rand(4, 8, generator=key),
    "shift": torch.full((8,), 0.1),
    "out": torch.rand(8, generator=key),
}
seen = {name: torch.zeros_like(each) for name, each in weights.items()}
for day in range(300):
    shelf, till = morning(day, key)
    weights, seen = rmsprop(weights, grad(error)(weights, shelf, till), seen)
print(f"{error(weights, shelf, till).item():.4f}")
