"""Low-rank adaptation: a small pretrained net learns a shifted task through rank-2 side paths only."""
import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, rank: int, alpha: float = 4.0):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.A = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features**0.5)
        self.B = nn.Parameter(torch.zeros(base.out_features, rank))  # zero: adaptation starts as a no-op
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * torch.einsum("bi,ri,or->bo", x, self.A, self.B)

    @torch.no_grad()
    def merge(self):
        self.base.weight.add_(self.scale * self.B @ self.A)
        return self.base


def inject(module, rank):
    for name, child in list(module.named_children()):
        if isinstance(child, nn.Linear):
            setattr(module, name, LoRALinear(child, rank))
        else:
            inject(child, rank)
    return module


def fit(model, target, steps, lr):
    params = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(params, lr=lr, weight_decay=0.0)
    first = None
    for _ in range(steps):
        x = torch.rand(64, 2) * 4 - 2
        loss = (model(x) - target(x)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        first = first if first is not None else loss.item()
    return len(params), first, loss.item()


def task_a(x):
    return torch.sin(x[:, :1]) * x[:, 1:]


def task_b(x):
    return torch.sin(x[:, :1]) * x[:, 1:] + 0.5 * x[:, :1] - 0.3


torch.manual_seed(8)
net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
print("pretrain: %d tensors, %.4f -> %.4f" % fit(net, task_a, 120, 1e-2))

inject(net, rank=2)
frozen = {n: p.clone() for n, p in net.named_parameters() if not p.requires_grad}
print("adapt:    %d tensors, %.4f -> %.4f" % fit(net, task_b, 120, 1e-2))
assert all(torch.equal(frozen[n], p) for n, p in net.named_parameters() if n in frozen)

with torch.no_grad():
    probe = torch.randn(16, 2)
    before = net(probe)
    merged = nn.Sequential(*[m.merge() if isinstance(m, LoRALinear) else m for m in net])
    print("merge error below 1e-5:", bool((merged(probe) - before).abs().max() < 1e-5))
