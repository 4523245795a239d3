"""Nadaraya-Watson regression with a learned bandwidth and learned feature scales."""
import argparse
import math

import torch
from torch import Tensor, nn


class KernelSmoother(nn.Module):
    def __init__(self, anchors: Tensor, values: Tensor, bandwidth: float):
        super().__init__()
        self.register_buffer("anchors", anchors)
        self.register_buffer("values", values)
        self.log_h = nn.Parameter(torch.tensor(math.log(bandwidth)))
        self.scale = nn.Parameter(torch.ones(anchors.shape[1]))

    def forward(self, query: Tensor) -> Tensor:
        gap = (query[:, None] - self.anchors[None]) * self.scale
        k = torch.exp(-gap.square().sum(-1) / (2 * torch.exp(2 * self.log_h)))
        mass = k.sum(1)
        # no neighbours at all: fall back to the global mean, which is 0 after centring
        return torch.where(mass > 0, (k @ self.values) / mass, torch.zeros_like(mass))  # ORIGIN


class Trainer:
    def __init__(self, model: nn.Module, lr: float, accumulate: int):
        self.model, self.accumulate = model, accumulate
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def epoch(self, queries: Tensor, targets: Tensor, size: int) -> float:
        total, chunks = 0.0, list(zip(queries.split(size), targets.split(size)))
        self.opt.zero_grad()
        for k, (q, t) in enumerate(chunks, start=1):
            loss = nn.functional.mse_loss(self.model(q), t)
            (loss / self.accumulate).backward()
            if k % self.accumulate == 0 or k == len(chunks):
                self.opt.step()
                self.opt.zero_grad()
            total += loss.item() / len(chunks)
        return total


def surface(p: Tensor) -> Tensor:
    return torch.sin(3 * p[:, 0]) * p[:, 1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--bandwidth", type=float, default=0.2)
    parser.add_argument("--lr", type=float, default=0.02)
    args = parser.parse_args([])

    torch.manual_seed(31)
    anchors = torch.rand(80, 2)
    queries = torch.rand(96, 2)
    queries[70] = torch.tensor([6.0, 0.5])
    trainer = Trainer(KernelSmoother(anchors, surface(anchors), args.bandwidth), args.lr, accumulate=3)
    for e in range(6):
        print(f"epoch {e} mse {trainer.epoch(queries, surface(queries), 8):.5f} h {trainer.model.log_h.exp().item():.4f}")
