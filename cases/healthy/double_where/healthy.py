# Zero-inflated counts. log and division are guarded twice: safe operand first, then the selection.
import torch

torch.manual_seed(5)
X = torch.rand(120, 4)
X[::9] = 0.0
counts = torch.poisson(3 * X @ torch.tensor([1.0, 0.5, 2.0, 0.2]))

w = torch.full((4,), 0.3, requires_grad=True)
lr = 0.05


def safe_log(v):
    ok = v > 0
    return torch.where(ok, torch.log(torch.where(ok, v, 1.0)), 0.0)


def safe_ratio(a, b):
    ok = b > 0
    return torch.where(ok, a / torch.where(ok, b, 1.0), 0.0)


def safe_sqrt(v):
    ok = v > 0
    return torch.where(ok, torch.where(ok, v, 1.0).sqrt(), 0.0)


for it in range(80):
    rate = X @ w.exp()
    nll = (rate - counts * safe_log(rate)).mean()
    pearson = (safe_ratio(counts - rate, safe_sqrt(rate)) ** 2).mean()
    loss = nll + 0.01 * pearson
    (g,) = torch.autograd.grad(loss, w)
    with torch.no_grad():
        w -= lr * g
    if it % 20 == 0:
        print(f"{it:2d} nll {nll.item():+.4f} dispersion {pearson.item():.3f} |g| {g.norm().item():.3f}")
print("rates per unit", [round(v, 2) for v in w.exp().tolist()])
