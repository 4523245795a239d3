"""Where a thrown ball lands: a pure update function, with a rate that is warmed up and never held."""
import torch
from torch.nn import functional as F


def start(key):
    return tuple((torch.randn(a, b, generator=key) * a**-0.5).requires_grad_() for a, b in ((3, 48), (48, 48), (48, 1)))


def predict(weights, throw):
    first, second, last = weights
    return F.silu(F.silu(throw @ first) @ second) @ last


def throws(key):
    throw = torch.rand(64, 3, generator=key) * 3
    return throw, throw[:, :1] * throw[:, 1:2] - 0.3 * throw[:, 2:]


def update(weights, throw, landed, rate):
    loss = (predict(weights, throw) - landed).square().mean()
    slopes = torch.autograd.grad(loss, weights)
    return tuple((w - rate * s).detach().requires_grad_() for w, s in zip(weights, slopes)), loss.item()  # ORIGIN


key = torch.Generator().manual_seed(3)
weights, curve = start(key), []
for step in range(300):
    weights, loss = update(weights, *throws(key), rate=0.02 * (step + 1) / 10)
    curve.append(loss)
print(f"{curve[0]:.3f} {curve[50]:.3f} {curve[-1]:.3f}")
