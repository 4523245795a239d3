"""Mixed precision on the CPU: bfloat16 autocast for the forward pass, float32 weights and loss."""
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn


class Trainer:
    def __init__(self, model, lr=3e-3, amp=True, clip=1.0):
        self.model, self.clip = model, clip
        self.opt = torch.optim.AdamW(model.parameters(), lr=lr)
        self.amp = (lambda: torch.autocast("cpu", dtype=torch.bfloat16)) if amp else nullcontext

    def loss(self, x, y):
        with self.amp():
            logits = self.model(x)
        return F.cross_entropy(logits.float(), y), logits.dtype

    def step(self, x, y):
        self.model.train()
        loss, dtype = self.loss(x, y)
        self.opt.zero_grad()
        loss.backward()          # outside autocast; no scaler is needed for bfloat16
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.opt.step()
        return loss.item(), dtype

    @torch.no_grad()
    def accuracy(self, x, y):
        self.model.eval()
        with self.amp():
            return (self.model(x).argmax(1) == y).float().mean().item()


def stripes(n):
    y = torch.randint(0, 3, (n,))
    grid = torch.arange(10.0)
    row, col = torch.sin(1.5 * grid)[:, None].expand(10, 10), torch.sin(1.5 * grid)[None, :].expand(10, 10)
    base = torch.stack([row, col, row * col])
    return (base[y] + 0.4 * torch.randn(n, 10, 10)).unsqueeze(1), y


def build():
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(8 * 25, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 3),
    )


if __name__ == "__main__":
    torch.manual_seed(120)
    trainer = Trainer(build())
    for i in range(31):
        value, dtype = trainer.step(*stripes(32))
        if i % 10 == 0:
            print(f"step {i:2d} loss {value:.4f} logits {dtype}")
    print("weights:", {str(p.dtype) for p in trainer.model.parameters()}, f"accuracy {trainer.accuracy(*stripes(200)):.2f}")
