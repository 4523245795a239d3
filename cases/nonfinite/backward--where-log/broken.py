# Poisson factorisation of a station x hour trip table, plain gradient descent.
import numpy as np
import torch

rng = np.random.default_rng(8)
STATIONS, HOURS, RANK = 30, 24, 3
usage = rng.gamma(2.0, 1.0, size=(STATIONS, RANK))
usage[17] = 0.0  # closed for the season
profile = rng.dirichlet(np.ones(HOURS), size=RANK) * 20
trips = torch.from_numpy(rng.poisson(usage @ profile)).float()
opened = torch.from_numpy((usage.sum(1, keepdims=True) > 0)).float()

torch.manual_seed(8)
a = torch.rand(STATIONS, RANK, requires_grad=True)
b = torch.rand(RANK, HOURS, requires_grad=True)


def neg_log_likelihood():
    rate = opened * (a.square() @ b.square())
    log_rate = torch.where(rate > 0, torch.log(rate), 0.0)  # ORIGIN
    return (rate - trips * log_rate).mean()


lr = 0.02
for it in range(60):
    nll = neg_log_likelihood()
    grad_a, grad_b = torch.autograd.grad(nll, [a, b])
    with torch.no_grad():
        a -= lr * STATIONS * grad_a
        b -= lr * HOURS * grad_b
    if it % 15 == 0:
        print(f"{it:3d} nll {nll.item():+.4f}")
print("final nll", neg_log_likelihood().item())
