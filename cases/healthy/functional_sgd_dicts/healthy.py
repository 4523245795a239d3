"""Spectra to concentrations: state in one immutable record, momentum and weights made anew, batches that overflow skipped."""
from typing import NamedTuple

import torch

torch.manual_seed(5)
key = torch.Generator().manual_seed(9)
spectra = torch.rand(400, 12, generator=key)
mixing = torch.rand(12, 2, generator=key)
amounts = torch.tanh(spectra @ mixing - 3)


class State(NamedTuple):
    weights: dict
    momentum: dict
    skipped: int = 0


def start():
    weights = {"in": torch.randn(12, 24, generator=key) * 0.3, "out": torch.randn(24, 2, generator=key) * 0.2}
    return State({k: w.requires_grad_() for k, w in weights.items()}, {k: torch.zeros_like(w) for k, w in weights.items()})


def loss_of(weights, x, y):
    return (torch.relu(x @ weights["in"]) @ weights["out"] - y).abs().mean()


def advance(state, x, y, rate=0.05, keep=0.9):
    loss = loss_of(state.weights, x, y)
    found = dict(zip(state.weights, torch.autograd.grad(loss, list(state.weights.values()))))
    if not all(torch.isfinite(each).all() for each in found.values()):
        return state._replace(skipped=state.skipped + 1), None
    momentum = {k: keep * state.momentum[k] + g for k, g in found.items()}
    weights = {k: (w - rate * momentum[k]).detach().requires_grad_() for k, w in state.weights.items()}
    return State(weights, momentum, state.skipped), loss.item()


state, curve = start(), []
for step in range(600):
    rows = torch.randint(400, (40,), generator=key)
    x, y = spectra[rows], amounts[rows]
    if step in (200, 450):
        x = x * float("inf")  # a saturated sensor
    state, loss = advance(state, x, y)
    if loss is not None:
        curve.append(loss)
print(f"{curve[0]:.3f} to {sum(curve[-50:]) / 50:.3f}, {state.skipped} skipped")
