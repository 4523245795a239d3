"""Valve leakage from pressure traces: hooks do what is not training."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import MultiStepLR


def traces(n, g):
    leak = torch.rand(n, 1, generator=g)
    t = torch.linspace(0, 1, 24)
    return torch.exp(-3 * leak * t) + 0.05 * torch.randn(n, 24, generator=g), leak


def make_hooks(optimizer, log):
    scheduler = MultiStepLR(optimizer, milestones=[12, 18], gamma=0.1)

    def after_batch(state):
        scheduler.step()  # ORIGIN

    def after_epoch(state):
        if state["epoch"] % 5 == 0:
            log(f"epoch {state['epoch']:2d}  loss {state['loss']:.4f}  lr {scheduler.get_last_lr()[0]:.1e}")

    return {"batch": [after_batch], "epoch": [after_epoch]}


def emit(hooks, event, state):
    for hook in hooks[event]:
        hook(state)


def fit(model, x, y, epochs=20, size=32):
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    hooks = make_hooks(optimizer, print)
    state = {}
    for state["epoch"] in range(epochs):
        for rows in torch.randperm(len(x)).split(size):
            loss = F.mse_loss(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state["loss"] = loss.item()
            emit(hooks, "batch", state)
        emit(hooks, "epoch", state)


if __name__ == "__main__":
    torch.manual_seed(2)
    x, y = traces(256, torch.Generator().manual_seed(8))
    fit(nn.Sequential(nn.Linear(24, 32), nn.Tanh(), nn.Linear(32, 1)), x, y)
