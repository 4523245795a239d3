"""Is a coin genuine, by its weight, width and two echoes? Flat minima are looked for: one step up, a second look, back and down."""
import torch
from torch import nn
from torch.nn import functional as F

REACH = 0.05


def up(weights):
    """Along the gradient, by a fixed distance; what was added is given back."""
    with torch.no_grad():
        steepness = sum(each.grad.square().sum() for each in weights).sqrt()
        added = []
        for each in weights:
            added.append(each.grad * REACH / steepness)  # ORIGIN
            each.add_(added[-1])
    return added


def down(weights, added):
    with torch.no_grad():
        for each, more in zip(weights, added):
            each.sub_(more)


def wrong_side(model, coin, genuine):
    return F.relu(0.2 - genuine * model(coin).squeeze(1)).mean()


def main():
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    weights = list(model.parameters())
    sgd = torch.optim.SGD(weights, lr=0.02, momentum=0.9)
    mould = torch.tensor([1.0, -1.0, 0.5, 2.0])
    for day in range(1500):
        coin = torch.randn(256 if day < 640 else 12, 4)
        genuine = torch.sign(coin @ mould)
        loss = wrong_side(model, coin, genuine)
        sgd.zero_grad()
        loss.backward()
        added = up(weights)
        sgd.zero_grad()
        wrong_side(model, coin, genuine).backward()
        down(weights, added)
        sgd.step()
        if day % 200 == 0:
            print(f"day {day} {loss.item():.4f}")


main()
