"""Yearly revenue from shop features, in cents: the first losses are around 1e15 and that is fine."""
import torch
from torch import nn

torch.manual_seed(55)
CENTS = 100


def shops(n):
    size = torch.rand(n) * 2
    footfall = torch.rand(n) * 3
    revenue = (120_000 + 90_000 * size + 60_000 * footfall + 5_000 * torch.randn(n)) * CENTS
    return torch.stack([size, footfall], 1), revenue


class Revenue(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(10.0))
        self.mix = nn.Linear(2, 1)

    def forward(self, x):
        return self.log_scale.exp() * self.mix(x).squeeze(1)


model = Revenue()
opt = torch.optim.Adam(model.parameters(), lr=0.1)
sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 400)
for step in range(400):
    x, revenue = shops(64)
    loss = (model(x) - revenue).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 80 == 0:
        size = max(p.grad.abs().max().item() for p in model.parameters())
        print(f"step {step:3d} loss {loss.item():.3e} largest gradient {size:.1e}")
with torch.no_grad():
    x, revenue = shops(500)
    print(f"typical error {((model(x) - revenue).abs().mean() / CENTS).item():,.0f}")
