"""Whole training programs for bench/table.py. Each runs in its own process, plain or watched.

Usage: python bench/programs.py NAME [SIZE]

Print one JSON line: the steps, the CPU seconds of their second half, and the peak memory in MB.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset
from workloads import gpt, lstm, mlp, resnet

Steps = Iterator[None]
"""A program yields after each of its steps."""


def repeat(step: Callable[[], None], steps: int) -> Steps:
    for _ in range(steps):
        step()
        yield


def mlp_steps(steps: int) -> Steps:
    return repeat(mlp()[1], steps)


def mlp_loader(steps: int) -> Steps:
    x, y = torch.randn(6400, 64), torch.randint(10, (6400,))
    loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(steps // len(loader)):
        for features, labels in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(features), labels).backward()
            optimizer.step()
            yield


def lstm_steps(steps: int) -> Steps:
    return repeat(lstm()[1], steps)


def resnet_steps(steps: int) -> Steps:
    return repeat(resnet()[1], steps)


def gpt_steps(steps: int) -> Steps:
    return repeat(gpt()[1], steps)


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Noisy images of ten patterns, augmented as they are fetched."""

    def __init__(self, count: int, seed: int) -> None:
        source = torch.Generator().manual_seed(seed)
        patterns = torch.randn(10, 1, 20, 20, generator=torch.Generator().manual_seed(1))
        self.labels = torch.randint(10, (count,), generator=source)
        self.images = patterns[self.labels] + torch.randn(count, 1, 20, 20, generator=source)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = self.images[index]
        if torch.rand(()) < 0.5:
            image = image.flip(-1)
        return (image - 0.1) / 1.4, int(self.labels[index])


def classifier(steps: int) -> Steps:
    """A convolutional net with data augmentation, validation, a schedule and checkpoints."""
    train = DataLoader(Images(1600, seed=2), batch_size=32, shuffle=True)
    valid = DataLoader(Images(320, seed=3), batch_size=64)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3), nn.BatchNorm2d(32), nn.ReLU(), nn.AdaptiveAvgPool2d(2),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(128, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps // len(train))
    best = 0.0
    for _ in range(steps // len(train)):
        model.train()
        for images, labels in train:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            yield
        schedule.step()
        model.eval()
        right = 0
        with torch.no_grad():
            for images, labels in valid:
                right += int((model(images).argmax(1) == labels).sum())
        if right > best:
            best = right
            kept = {name: each.clone() for name, each in model.state_dict().items()}
    model.load_state_dict(kept)


def padded(samples: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[torch.Tensor, torch.Tensor]:
    tokens, labels = zip(*samples, strict=True)
    return nn.utils.rnn.pad_sequence(list(tokens), batch_first=True), torch.stack(labels)


class Reader(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(500, 48, padding_idx=0)
        self.place = nn.Parameter(torch.randn(64, 48) * 0.02)
        layer = nn.TransformerEncoderLayer(48, 4, 96, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(48, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden = self.embed(tokens) + self.place[: tokens.shape[1]]
        hidden = self.encoder(hidden, src_key_padding_mask=tokens == 0)
        return self.head(hidden.masked_fill((tokens == 0)[..., None], 0).mean(1))


def shapes(steps: int) -> Steps:
    """A text classifier in which nearly every batch has a different length."""
    texts = [torch.randint(1, 500, (int(torch.randint(5, 60, ())),)) for _ in range(1600)]
    labels = [torch.tensor(int(each[0]) % 4) for each in texts]
    loader = DataLoader(
        list(zip(texts, labels, strict=True)), batch_size=16, shuffle=True, collate_fn=padded
    )
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(max(1, steps // len(loader))):
        for tokens, kinds in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(tokens), kinds).backward()
            optimizer.step()
            yield


def trained(width: int, steps: int, lr: float) -> Steps:
    """One model of a search, with its own loader and optimizer."""
    x = torch.randn(512, 20)
    y = (x[:, 0] * x[:, 1] > 0).long()
    train = DataLoader(TensorDataset(x[:384], y[:384]), batch_size=32, shuffle=True)
    valid = DataLoader(TensorDataset(x[384:], y[384:]), batch_size=64)
    model = nn.Sequential(
        nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(max(1, steps // len(train))):
        model.train()
        for features, labels in train:
            loss = F.cross_entropy(model(features), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield
        model.eval()
        with torch.no_grad():
            sum(int((model(features).argmax(1) == labels).sum()) for features, labels in valid)


def models(count: int) -> Steps:
    """A search that trains many small models."""
    for number in range(count):
        yield from trained(16 + 4 * number, 240, 10 ** -(2 + number % 3))


def loaders(count: int) -> Steps:
    """Cross-validation over many tables: one model, and new loaders for each fold."""
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for fold in range(count):
        x = torch.randn(640 + 16 * fold, 12)
        y = x.sum(1, keepdim=True)
        train = DataLoader(TensorDataset(x[64:], y[64:]), batch_size=16 + fold % 7, shuffle=True)
        valid = DataLoader(TensorDataset(x[:64], y[:64]), batch_size=32)
        for _ in range(3):
            for features, targets in train:
                optimizer.zero_grad()
                F.mse_loss(model(features), targets).backward()
                optimizer.step()
                yield
            with torch.no_grad():
                sum(float(F.mse_loss(model(features), targets)) for features, targets in valid)


def optimizers(count: int) -> Steps:
    """Greedy pretraining: layers are trained one by one, each with its own optimizer."""
    data = torch.randn(512, 32)
    for number in range(count):
        layer, back = nn.Linear(32, 32), nn.Linear(32, 32)
        optimizer = torch.optim.AdamW([*layer.parameters(), *back.parameters()], lr=1e-3)
        for step in range(200):
            batch = data[step % 8 * 64 : step % 8 * 64 + 64]
            loss = F.mse_loss(back(torch.tanh(layer(batch))), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            yield
        with torch.no_grad():
            data = torch.tanh(layer(data)) + 0.01 * number


def wide(parameters: int) -> Steps:
    """A net with about this many parameters, and small batches."""
    width = max(16, int((parameters / 2) ** 0.5))
    model = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x, y = torch.randn(16, width), torch.randn(16, width)
    for _ in range(max(40, min(4000, int(4e8 / parameters)))):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        yield


def deep(calls: int) -> Steps:
    """A step with about this many torch calls."""
    scales = nn.ParameterList(nn.Parameter(torch.ones(64)) for _ in range(8))
    optimizer = torch.optim.SGD(scales.parameters(), lr=1e-4)
    x = torch.randn(32, 64)
    for _ in range(max(30, min(6000, 200_000 // calls))):
        optimizer.zero_grad()
        hidden = x
        for _, scale in zip(range(max(1, calls // 3)), cycle(scales)):
            hidden = torch.tanh(hidden * scale)
        hidden.square().mean().backward()
        optimizer.step()
        yield


PROGRAMS: dict[str, tuple[Callable[[int], Steps], int]] = {
    "MLP": (mlp_steps, 6000),
    "MLP, loader": (mlp_loader, 6000),
    "LSTM": (lstm_steps, 400),
    "ResNet": (resnet_steps, 40),
    "GPT": (gpt_steps, 40),
    "classifier": (classifier, 900),
    "many shapes": (shapes, 400),
    "30 models": (models, 30),
    "30 loaders": (loaders, 30),
    "30 optimizers": (optimizers, 30),
    "parameters": (wide, 100_000),
    "calls": (deep, 100),
    "models": (models, 3),
    "steps": (mlp_steps, 1000),
}
"""Each with its size: of most, their steps."""


def cpu() -> float:
    below = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + below.ru_utime + below.ru_stime


def peak() -> float:
    """Peak memory in MB. The peak in rusage may be that of the parent process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("VmHWM")).split()[1]) / 1024


def main() -> None:
    name = sys.argv[1]
    program, size = PROGRAMS[name]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    clock = [cpu()]
    clock += [cpu() for _ in program(int(float(sys.argv[2])) if len(sys.argv) > 2 else size)]
    steps = len(clock) - 1
    print(json.dumps({"steps": steps, "half": clock[-1] - clock[steps // 2], "peak": peak()}))


if __name__ == "__main__":
    main()
