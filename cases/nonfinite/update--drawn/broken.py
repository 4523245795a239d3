"""How warm a greenhouse gets: Adam as a function over lists, and a generator that hands out what was learnt so far."""
import torch


def adam(weights, slopes, state, rate=0.01, fade=0.5):
    trends, spreads, count = state
    count += 1
    trends = [fade * trend + (1 - fade) * slope for trend, slope in zip(trends, slopes)]
    spreads = [fade * spread + (1 - fade) * slope.square() for spread, slope in zip(spreads, slopes)]
    moved = []
    for weight, trend, spread in zip(weights, trends, spreads):
        step = (trend / (1 - fade**count)) / (spread / (1 - fade**count)).sqrt()  # ORIGIN
        moved.append((weight - rate * step).detach().requires_grad_())
    return moved, (trends, spreads, count)


def learn(weights, days):
    blank = [torch.zeros_like(each) for each in weights]
    state = (blank, blank, 0)
    for weather, warmth in days:
        loss = (torch.relu(weather @ weights[0]) @ weights[1] - warmth).square().mean()
        weights, state = adam(weights, torch.autograd.grad(loss, weights), state)
        yield loss.item(), weights


def days(key, count):
    for day in range(count):
        weather = torch.randn(24, 4, generator=key)
        if day >= 60:
            weather[:, 3] = 0.0  # the fourth thermometer has been taken away
        yield weather, weather[:, 0] - weather[:, 1]


key = torch.Generator().manual_seed(1)
weights = [torch.randn(4, 12, generator=key).requires_grad_(), (0.3 * torch.randn(12, generator=key)).requires_grad_()]
for loss, weights in learn(weights, days(key, 320)):
    last = loss
print(f"{last:.4f}")
