"""Multi-task tagging of synthetic sensor readings: one trunk, one head per task."""
import torch
from torch import nn
import torch.nn.functional as F

TASKS = {"activity": 5, "posture": 3, "surface": 2}


class MultiTask(nn.Module):
    def __init__(self, n_features, tasks):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_features, 48), nn.ReLU(), nn.LayerNorm(48))
        self.heads = nn.ModuleDict({name: nn.Linear(48, k) for name, k in tasks.items()})

    def forward(self, x):
        z = self.trunk(x)
        return {name: head(z) for name, head in self.heads.items()}


def stream(steps, batch, teachers):
    for _ in range(steps):
        x = torch.randn(batch, 12)
        yield x, {name: (x @ w).argmax(-1) for name, w in teachers.items()}


def run():
    torch.manual_seed(13)
    teachers = {name: torch.randn(12, k) for name, k in TASKS.items()}
    net = MultiTask(12, TASKS)
    optim = torch.optim.Adam(net.parameters(), lr=4e-3)
    for i, (x, labels) in enumerate(stream(60, 64, teachers)):
        out = net(x)
        losses = {name: F.cross_entropy(out[name], labels[name]) for name in TASKS}
        loss = sum(losses.values())
        optim.zero_grad()
        loss.backward()
        optim.step()
        if i % 12 == 0:
            print(i, {k: round(v.item(), 3) for k, v in losses.items()})


run()
