"""Four data sources, one trunk, one head per source. A step sees one source only; the other heads have no gradient then."""
import random

import torch
from torch import nn

TASKS = {
    "sum": (1, lambda x: x.sum(1, keepdim=True) / 3),
    "sign": (2, lambda x: (x[:, 0] > 0).long()),
    "which": (4, lambda x: x[:, :4].argmax(1)),
    "swap": (2, lambda x: x[:, [1, 0]]),
}


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(24, out) for name, (out, _) in TASKS.items()})

    def forward(self, x, task):
        return self.heads[task](self.trunk(x))


def objective(task, out, y):
    return nn.functional.cross_entropy(out, y) if y.dtype == torch.long else nn.functional.mse_loss(out, y)


random.seed(4)
torch.manual_seed(4)
model = Shared()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
log = {t: [] for t in TASKS}
for step in range(160):
    task = random.choices(list(TASKS), weights=[4, 3, 2, 1])[0]
    x = torch.randn(32, 6)
    loss = objective(task, model(x, task), TASKS[task][1](x))
    opt.zero_grad()                # the idle heads' gradients become None and Adam passes over them
    loss.backward()
    opt.step()
    log[task].append(loss.item())
for task, values in log.items():
    print(f"{task:6s} {len(values):3d} steps  {values[0]:.3f} -> {sum(values[-3:]) / 3:.3f}")
