"""A regression with an Adam of its own."""
import torch
from torch import nn


class PlainAdam(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, b1=0.9, b2=0.999, eps=1e-8):
        super().__init__(params, dict(lr=lr, b1=b1, b2=b2, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for g in self.param_groups:
            for p in g["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s["t"], s["m"], s["v"] = 0, torch.zeros_like(p), torch.zeros_like(p)
                s["t"] += 1
                s["m"].mul_(g["b1"]).add_(p.grad, alpha=1 - g["b1"])
                s["v"].mul_(g["b2"]).addcmul_(p.grad, p.grad, value=1 - g["b2"])
                mh = s["m"] / (1 - g["b1"] ** s["t"])
                vh = s["v"] / (1 - g["b2"] ** s["t"])
                p.sub_(g["lr"] * mh / (vh.sqrt() + g["eps"]))


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
opt = PlainAdam(net.parameters())
for _ in range(20):
    x = torch.randn(16, 6)
    loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
