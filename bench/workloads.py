"""Workloads to time the watch on: an MLP, an LSTM, a ResNet-18-like net and a 6-layer GPT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

Step = Callable[[], None]


@dataclass(frozen=True)
class Workload:
    name: str
    build: Callable[[], tuple[nn.Module, Step]]
    steps: int
    """Steps in one timed block."""


DIVISOR = torch.ones(())
"""Set to zero, it spoils the next step."""


def _loop(
    model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]
) -> tuple[nn.Module, Step]:
    def step() -> None:
        optimizer.zero_grad()
        (loss() / DIVISOR).backward()
        optimizer.step()

    return model, step


def mlp() -> tuple[nn.Module, Step]:
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    x, y = torch.randn(64, 64), torch.randint(10, (64,))
    return _loop(model, torch.optim.Adam(model.parameters()), lambda: F.cross_entropy(model(x), y))


class _Tagger(nn.Module):
    def __init__(
        self, words: int = 1000, width: int = 64, hidden: int = 128, tags: int = 20, layers: int = 1
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, tags)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(tokens))[0])


def lstm() -> tuple[nn.Module, Step]:
    return _tagging(_Tagger(), torch.randint(1000, (32, 48)), torch.randint(20, (32, 48)))


def usual_lstm() -> tuple[nn.Module, Step]:
    tokens = torch.randint(10_000, (20, 36))
    return _tagging(_Tagger(10_000, 650, 650, 10_000, 2), tokens[:, :-1], tokens[:, 1:])


def _tagging(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> tuple[nn.Module, Step]:
    return _loop(
        model,
        torch.optim.Adam(model.parameters()),
        lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()),
    )


class _Residual(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outside)
        self.short = (
            nn.Conv2d(inside, outside, 1, stride, bias=False)
            if stride > 1 or inside != outside
            else nn.Identity()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.short(x))


def resnet() -> tuple[nn.Module, Step]:
    return _recognizing(32, torch.randn(16, 3, 32, 32))


def usual_resnet() -> tuple[nn.Module, Step]:
    return _recognizing(64, torch.randn(32, 3, 32, 32))


def _recognizing(width: int, x: torch.Tensor) -> tuple[nn.Module, Step]:
    blocks = [
        (1, 1, 1),
        (1, 1, 1),
        (1, 2, 2),
        (2, 2, 1),
        (2, 4, 2),
        (4, 4, 1),
        (4, 8, 2),
        (8, 8, 1),
    ]
    model = nn.Sequential(
        nn.Conv2d(3, width, 3, 1, 1),
        *(_Residual(inside * width, outside * width, stride) for inside, outside, stride in blocks),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, 10),
    )
    y = torch.randint(10, (len(x),))
    return _loop(
        model,
        torch.optim.SGD(model.parameters(), 0.01, momentum=0.9),
        lambda: F.cross_entropy(model(x), y),
    )


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, w = x.shape
        q, k, v = (
            each.view(b, t, self.heads, -1).transpose(1, 2)
            for each in self.qkv(self.norm1(x)).chunk(3, -1)
        )
        mixed = (
            F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, w)
        )
        x = x + self.drop(self.out(mixed))
        return x + self.drop(self.mlp(self.norm2(x)))


class _GPT(nn.Module):
    def __init__(self, width: int = 192, layers: int = 6) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(2000, width), nn.Embedding(128, width)
        self.blocks = nn.Sequential(*(_Block(width, 6) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2000, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def gpt() -> tuple[nn.Module, Step]:
    return _continuing(_GPT(), torch.randint(2000, (8, 129)))


def usual_gpt() -> tuple[nn.Module, Step]:
    return _continuing(_GPT(384), torch.randint(2000, (32, 129)))


def _continuing(model: nn.Module, tokens: torch.Tensor) -> tuple[nn.Module, Step]:
    x, y = tokens[:, :-1], tokens[:, 1:]
    return _loop(
        model,
        torch.optim.AdamW(model.parameters()),
        lambda: F.cross_entropy(model(x).reshape(-1, 2000), y.reshape(-1)),
    )


WORKLOADS = (
    Workload("MLP", mlp, 30),
    Workload("LSTM", lstm, 5),
    Workload("ResNet", resnet, 3),
    Workload("GPT", gpt, 2),
)
USUAL = (
    Workload("usual LSTM", usual_lstm, 1),
    Workload("usual ResNet-18", usual_resnet, 1),
    Workload("usual GPT", usual_gpt, 1),
)
"""In the sizes that people train: too slow to be timed in pairs."""
