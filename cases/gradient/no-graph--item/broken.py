"""Multi-task fitting: one shared trunk, one small head per task."""
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(30)
TASKS = {"sum": lambda x: x.sum(1), "max": lambda x: x.amax(1), "spread": lambda x: x.std(1)}
WEIGHTS = {"sum": 1.0, "max": 0.5, "spread": 2.0}


class MultiHead(nn.Module):
    def __init__(self, d=5, width=24):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d, width), nn.ReLU())
        self.heads = nn.ModuleDict({name: nn.Linear(width, 1) for name in TASKS})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h)[:, 0] for name, head in self.heads.items()}


def weighted_loss(predictions, x):
    total = torch.zeros(())
    for name, rule in TASKS.items():
        total += WEIGHTS[name] * F.mse_loss(predictions[name], rule(x)).item()  # ORIGIN
    return total / sum(WEIGHTS.values())


net = MultiHead()
optim = torch.optim.Adam(net.parameters(), lr=4e-3)
scheduler = torch.optim.lr_scheduler.StepLR(optim, step_size=10, gamma=0.5)
for step in range(24):
    x = torch.randn(32, 5)
    loss = weighted_loss(net(x), x)
    optim.zero_grad()
    loss.backward()
    optim.step()
    scheduler.step()
    if step % 6 == 0:
        print(f"step {step:2d} weighted loss {loss.item():.3f}")
