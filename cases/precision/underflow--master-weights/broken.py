import copy

import torch
from torch import nn

GRID = 32
CELL = 1.0 / GRID ** 2  # area of one grid cell
DT = 0.02


def heat_fields(n):
    """source term on a grid and the field it causes (two box blurs), both about unit scale"""
    src = torch.randn(n, 1, GRID, GRID)
    blur = nn.functional.avg_pool2d
    field = blur(blur(src, 3, 1, 1), 3, 1, 1)
    return src, field / 0.24


class Solver(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.lift = nn.Conv2d(1, width, 3, padding=1)
        self.mix = nn.Conv2d(width, width, 3, padding=1)
        self.out = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x):
        x = torch.tanh(self.lift(x))
        x = torch.tanh(self.mix(x))
        return self.out(x)


def energy(pred, field):
    """squared error over the plate during one time step, averaged over samples and cells"""
    return ((pred.float() - field) ** 2 * CELL * DT).mean()


torch.manual_seed(0)
master = Solver()
model = copy.deepcopy(master).half()  # ORIGIN
optimizer = torch.optim.Adam(master.parameters(), lr=5e-3)

for step in range(1, 43):
    src, field = heat_fields(12)
    loss = energy(model(src.half()), field)
    model.zero_grad()
    loss.backward()
    # the optimizer works on the float32 copy
    for big, small in zip(master.parameters(), model.parameters()):
        big.grad = small.grad.float()
    optimizer.step()
    with torch.no_grad():
        for big, small in zip(master.parameters(), model.parameters()):
            small.copy_(big)
    if step % 6 == 0:
        print(f"step {step} energy {loss.item():.4e}")
