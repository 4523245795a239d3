"""ControlNet-style side branch: all its outlets are zero-initialised convolutions, so at first only the outlets get a gradient."""
import torch
from torch import nn


def zero(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


class Base(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.inp = nn.Conv2d(1, ch, 3, padding=1)
        self.mid = nn.Conv2d(ch, ch, 3, padding=1)
        self.out = nn.Conv2d(ch, 1, 3, padding=1)

    def forward(self, x, extra=(0.0, 0.0)):
        h = torch.relu(self.inp(x)) + extra[0]
        h = torch.relu(self.mid(h)) + extra[1]
        return self.out(h)


class Control(nn.Module):
    def __init__(self, ch=12):
        super().__init__()
        self.hint = nn.Sequential(nn.Conv2d(1, ch, 3, padding=1), nn.SiLU())
        self.a = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.SiLU())
        self.b = nn.Sequential(nn.Conv2d(ch, ch, 3, padding=1), nn.SiLU())
        self.zero_a = zero(nn.Conv2d(ch, ch, 1))
        self.zero_b = zero(nn.Conv2d(ch, ch, 1))

    def forward(self, hint):
        h = self.a(self.hint(hint))
        return self.zero_a(h), self.zero_b(self.b(h))


def pictures(n):
    x = torch.randn(n, 1, 8, 8)
    return x, nn.functional.avg_pool2d(x, 3, 1, 1)


torch.manual_seed(44)
base = Base()
opt = torch.optim.Adam(base.parameters(), lr=3e-3)
for _ in range(50):
    x, y = pictures(16)
    loss = (base(x) - y).square().mean()
    opt.zero_grad(); loss.backward(); opt.step()
print(f"base blur task {loss.item():.4f}")

base.requires_grad_(False).eval()
control = Control()
opt = torch.optim.AdamW(control.parameters(), lr=5e-3)
silent = []
for step in range(90):
    x, y = pictures(16)
    hint = (torch.rand(16, 1, 8, 8) > 0.7).float()
    want = torch.where(hint > 0, -y, y)              # flip the sign where the hint says so
    loss = (base(x, control(hint)) - want).square().mean()
    opt.zero_grad()
    loss.backward()
    if step == 0:
        silent = [n for n, p in control.named_parameters() if p.grad.abs().max() == 0]
    opt.step()
    if step % 30 == 0 or step == 89:
        print(f"control step {step:2d} loss {loss.item():.4f}")
print("without gradient in step 0:", len(silent), "of", len(list(control.parameters())))
