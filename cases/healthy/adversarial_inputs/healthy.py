"""PGD adversarial training. The inputs require gradients, the attack's parameter gradients are thrown away, and a saliency map comes at the end."""
import torch
import torch.nn.functional as F
from torch import nn


def attack(model, x, y, eps=0.2, alpha=0.1, steps=3):
    model.eval()
    x_adv = x + torch.empty_like(x).uniform_(-eps, eps)
    for _ in range(steps):
        x_adv = x_adv.detach().requires_grad_(True)
        F.cross_entropy(model(x_adv), y).backward()       # fills the parameters' .grad as well
        with torch.no_grad():
            x_adv = x_adv + alpha * x_adv.grad.sign()
            x_adv = x + (x_adv - x).clamp(-eps, eps)
    model.train()
    model.zero_grad(set_to_none=True)
    return x_adv.detach()


def digits(n):
    y = torch.randint(0, 3, (n,))
    x = 0.4 * torch.randn(n, 1, 8, 8)
    rows = torch.arange(8)
    for i, c in enumerate(y.tolist()):
        if c == 0:
            x[i, 0, rows, rows] += 1
        elif c == 1:
            x[i, 0, rows, 7 - rows] += 1
        else:
            x[i, 0, 3:5] += 1
    return x, y


torch.manual_seed(29)
model = nn.Sequential(
    nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.1), nn.Linear(128, 3)
)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(40):
    x, y = digits(32)
    x_adv = attack(model, x, y)
    loss = 0.5 * F.cross_entropy(model(x), y) + 0.5 * F.cross_entropy(model(x_adv), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 10 == 0 or step == 39:
        print(f"step {step:2d} loss {loss.item():.3f}")

x, y = digits(100)
x_adv = attack(model, x, y)
model.eval()
with torch.no_grad():
    print("clean %.2f robust %.2f" % tuple((model(v).argmax(1) == y).float().mean().item() for v in (x, x_adv)))

# saliency: gradient of the winning score for the input, parameters are left alone
probe = x[:1].clone().requires_grad_()
(sal,) = torch.autograd.grad(model(probe).max(), probe)
print("most salient pixel", divmod(int(sal.abs().flatten().argmax()), 8))
