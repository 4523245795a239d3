"""Ratings of beers by taste of the drinker: Adagrad written as a pure function, new weights in every step."""
import torch
from torch.func import grad

BEERS, DRINKERS, SIZE = 40, 12, 4


def fit(weights, who, what):
    return (weights["drinker"][who] * weights["beer"][what]).sum(dim=1)


def error(weights, who, what, rating):
    return (fit(weights, who, what) - rating).square().mean()


def adagrad(weights, slopes, seen, rate=0.1):
    seen = {name: each + slopes[name].square() for name, each in seen.items()}
    moved = {name: rate * slopes[name] / (seen[name].sqrt() + 1e-8) for name in weights}
    return {name: each - moved[name] for name, each in weights.items()}, seen


key = torch.Generator().manual_seed(2)
weights = {
    "drinker": torch.randn(DRINKERS, SIZE, generator=key),
    "beer": torch.randn(BEERS, SIZE, generator=key) * 0.5,
}
seen = {name: torch.zeros_like(each) for name, each in weights.items()}
for evening in range(120):
    on_tap = 32 if evening < 80 else BEERS  # a new delivery
    who = torch.arange(48) % DRINKERS
    what = torch.randint(on_tap, (48,), generator=key)
    rating = torch.sin(who * 1.3 + what * 0.7)
    slopes = grad(error)(weights, who, what, rating)
    weights, seen = adagrad(weights, slopes, seen)
    if evening % 40 == 0:
        print(f"{evening} {error(weights, who, what, rating).item():.3f}")
print(f"{error(weights, who, what, rating).item():.3f}")
