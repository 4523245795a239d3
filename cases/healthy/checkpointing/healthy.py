"""Activation checkpointing (non-reentrant), with dropout inside the segments, against the same net without it."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Segment(nn.Module):
    def __init__(self, width: int, p: float) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Dropout(p), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor, gain: float = 1.0) -> torch.Tensor:
        return x + gain * self.inner(x)


class Deep(nn.Module):
    def __init__(self, width: int = 24, depth: int = 5, p: float = 0.1, *, save_memory: bool) -> None:
        super().__init__()
        self.stem = nn.Linear(8, width)
        self.segments = nn.ModuleList(Segment(width, p) for _ in range(depth))
        self.head = nn.Linear(width, 4)
        self.save_memory = save_memory

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for seg in self.segments:
            if self.save_memory and self.training:
                x = checkpoint(seg, x, gain=0.5, use_reentrant=False)
            else:
                x = seg(x, gain=0.5)
        return self.head(x)


def train(save_memory: bool) -> list[float]:
    torch.manual_seed(90)
    net = Deep(save_memory=save_memory)
    net.segments[0].requires_grad_(False)     # a frozen segment below trainable ones
    opt = torch.optim.Adam((p for p in net.parameters() if p.requires_grad), lr=3e-3)
    x = torch.randn(160, 8)
    y = x[:, :4].argmax(1)
    history = []
    for epoch in range(6):
        for rows in torch.randperm(160).split(32):
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            opt.zero_grad()
            loss.backward()
            opt.step()
        history.append(loss.item())
    return history


lean, plain = train(True), train(False)
print("checkpointed", [f"{v:.4f}" for v in lean])
print("plain       ", [f"{v:.4f}" for v in plain])
print("same:", torch.allclose(torch.tensor(lean), torch.tensor(plain), atol=1e-4))
