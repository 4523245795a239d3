"""Normalised gradient descent: every tensor moves by a fixed length per step."""
import torch
from torch import nn

torch.manual_seed(80)


class ResidualRegressor(nn.Module):
    """Adds a learned correction to the physical model; the correction starts at zero."""

    def __init__(self, width=32):
        super().__init__()
        self.hidden = nn.Linear(2, width)
        self.correction = nn.Linear(width, 1)
        nn.init.zeros_(self.correction.weight)
        nn.init.zeros_(self.correction.bias)

    def forward(self, state):
        height, speed = state.unbind(1)
        physics = height + 0.1 * speed - 0.049
        return physics + self.correction(torch.tanh(self.hidden(state))).squeeze(1)


def drops(n):
    state = torch.stack([5 + 5 * torch.rand(n), 6 * torch.rand(n) - 3], 1)
    height, speed = state.unbind(1)
    drag = 0.05 * speed * speed.abs()
    return state, height + 0.1 * (speed - drag) - 0.049


model = ResidualRegressor()
opt = torch.optim.SGD(model.parameters(), lr=0.05)
decay = torch.optim.lr_scheduler.ExponentialLR(opt, 0.97)
for step in range(100):
    state, after = drops(64)
    loss = (model(state) - after).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    for p in model.parameters():
        p.grad = p.grad / p.grad.norm()  # ORIGIN
    opt.step()
    decay.step()
    if step % 20 == 0:
        print(f"step {step:3d} error {loss.item():.6f}")
