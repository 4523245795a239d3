"""Two tasks whose losses are kept at one scale by a running mean."""
import torch
from torch import nn


class LossBalancer:
    """Keep the tasks at a common scale with a running mean of each loss."""

    def __init__(self, names, decay=0.98):
        self.decay = decay
        self.mean = {name: None for name in names}

    def __call__(self, losses):
        total = 0.0
        for name, value in losses.items():
            old = self.mean[name]
            now = value.detach()
            self.mean[name] = now if old is None else self.decay * old + (1 - self.decay) * now
            total = total + value / self.mean[name]
        return total


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(6, 32), nn.GELU())
        self.count = nn.Linear(32, 1)
        self.price = nn.Linear(32, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.count(h).squeeze(-1), self.price(h).squeeze(-1)


def log_error(pred, target):
    return (pred - torch.log(target)).pow(2).mean()  # ORIGIN


def make(step, n=48):
    g = torch.Generator().manual_seed(step)
    x = torch.randn(n, 6, generator=g)
    count = x[:, 0] - x[:, 1]
    price = torch.exp(0.4 * x[:, 2] + 0.1 * torch.randn(n, generator=g))
    if step == 150:
        price[17] = 0.0
    return x, count, price


torch.manual_seed(0)
model, balance = TwoHeads(), LossBalancer(["count", "price"])
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
bad = 0
for step in range(260):
    x, count, price = make(step)
    c, p = model(x)
    losses = {"count": nn.functional.mse_loss(c, count), "price": log_error(p, price)}
    loss = balance(losses)
    if torch.isnan(loss):
        bad += 1
        continue
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        print(step, {k: round(v.item(), 3) for k, v in losses.items()})
print("left out", bad)
