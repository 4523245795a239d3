"""Poisson regression of accidents per junction. No nn, no optim."""
import torch

torch.manual_seed(50)
JUNCTIONS, FACTORS = 120, 4

traffic = torch.randn(JUNCTIONS, FACTORS)
rate = torch.exp(traffic @ torch.tensor([0.6, -0.3, 0.0, 0.2]) + 1.0)
accidents = torch.poisson(rate)

w = torch.zeros(FACTORS, requires_grad=True)
b = torch.zeros((), requires_grad=True)


def deviance(y, mu):
    """2 * sum(y log(y/mu) - (y - mu)), where the first term is 0 for y = 0."""
    seen = y > 0
    log_ratio = torch.log(torch.where(seen, y, 1.0) / mu)
    term = seen * (y * log_ratio)
    return 2 * (term - (y - mu)).mean()


def gradient_step(loss, lr):
    gw, gb = torch.autograd.grad(loss, [w, b])
    with torch.no_grad():
        w.sub_(lr * gw)
        b.sub_(lr * gb)


for k in range(30):
    mu = torch.exp(traffic @ w + b)
    loss = deviance(accidents, mu)
    gradient_step(loss, lr=0.05)
    if k % 5 == 0:
        print(k, round(loss.item(), 4))
print("w", w.tolist(), "b", b.item())
