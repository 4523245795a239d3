"""Mixture of experts with a top-2 router: all other experts get -inf before the softmax."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Router(nn.Module):
    def __init__(self, dim: int, experts: int, k: int = 2) -> None:
        super().__init__()
        self.gate, self.k = nn.Linear(dim, experts, bias=False), k

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        logits = self.gate(x)
        chosen = logits.topk(self.k, dim=-1).indices
        keep = torch.full_like(logits, float("-inf")).scatter(-1, chosen, logits.gather(-1, chosen))
        weights = keep.softmax(-1)
        # load balancing as in the Switch Transformer
        usage = (weights > 0).float().mean(0)
        balance = len(usage) * (usage * logits.softmax(-1).mean(0)).sum() / self.k
        return weights, balance


class MoE(nn.Module):
    def __init__(self, dim: int = 8, experts: int = 6) -> None:
        super().__init__()
        self.router = Router(dim, experts)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 3)) for _ in range(experts))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        weights, balance = self.router(x)
        out = x.new_zeros(len(x), 3)
        for e, expert in enumerate(self.experts):
            rows = weights[:, e].nonzero().squeeze(1)
            if len(rows):
                out = out.index_add(0, rows, weights[rows, e, None] * expert(x[rows]))
        return out, balance


def task(n: int) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 8)
    region = (x[:, 0] > 0).long() + 2 * (x[:, 1] > 0).long()
    return x, (region + (x[:, 2] > 0).long()) % 3


torch.manual_seed(135)
moe = MoE()
opt = torch.optim.Adam(moe.parameters(), lr=1e-2)
for step in range(121):
    x, y = task(64)
    logits, balance = moe(x)
    loss = F.cross_entropy(logits, y) + 0.01 * balance
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 30 == 0:
        print(f"step {step:3d} loss {loss.item():.4f} balance {balance.item():.3f}")
with torch.no_grad():
    x, y = task(500)
    print("accuracy", (moe(x)[0].argmax(1) == y).float().mean().item())
