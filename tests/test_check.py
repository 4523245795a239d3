"""`whence.check`: healthy models pass, each broken one fails the right check,
and nothing that is given is changed.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import whence
from whence.checking.check import check
from whence.checking.result import CheckFailed, CheckReport, Outcome
from whence.cli.check import main
from whence.config import UsageError

Parts = dict[str, Any]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)
    random.seed(0)


# healthy models


class ConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2)
        )
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.lstm = nn.LSTM(8, 16, batch_first=True, bidirectional=True)
        self.out = nn.Linear(32, 4)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.embed(tokens))[0]).transpose(1, 2)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(16, 3)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return self.out(self.encoder(self.embed(tokens), src_key_padding_mask=mask).mean(1))


class Attention(nn.Module):
    def __init__(self, width: int, *, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        return self.out(F.scaled_dot_product_attention(q, k, v, is_causal=self.causal))


class GPT(nn.Module):
    def __init__(self, *, causal: bool = True) -> None:
        super().__init__()
        self.embed = nn.Embedding(30, 16)
        self.place = nn.Parameter(torch.zeros(1, 12, 16))
        self.norm = nn.LayerNorm(16)
        self.attend = Attention(16, causal=causal)
        self.head = nn.Linear(16, 30, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens) + self.place[:, : tokens.size(1)]
        return self.head(x + self.attend(self.norm(x)))


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(12, 8)
        self.decode = nn.Linear(4, 12)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decode(code), mean, log_variance


def elbo(output: Any, x: torch.Tensor) -> torch.Tensor:
    made, mean, log_variance = output
    divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    return F.mse_loss(made, x, reduction="sum") / x.size(0) + divergence


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 8))

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return F.pairwise_distance(self.body(left), self.body(right))


def contrastive(distance: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
    return (same * distance**2 + (1 - same) * F.relu(1 - distance) ** 2).mean()


class GraphNet(nn.Module):
    """One graph: nodes see their neighbours, and there is no batch."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        h = self.first(x).relu()
        return self.second(h.index_add(0, edges[1], h[edges[0]]))


class AdjacencyNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(5, 16), nn.Linear(16, 3)

    def forward(self, x: torch.Tensor, adjacency: torch.Tensor) -> torch.Tensor:
        return self.second(adjacency @ self.first(x).relu())


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 8, 3, padding=1)
        self.boxes, self.scores = nn.Conv2d(8, 4, 1), nn.Conv2d(8, 2, 1)

    def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        h = self.body(images).relu()
        return {
            "boxes": self.boxes(h).flatten(2).transpose(1, 2),
            "scores": self.scores(h).flatten(2).transpose(1, 2),
        }


def detection_loss(
    output: dict[str, torch.Tensor], targets: list[dict[str, torch.Tensor]]
) -> torch.Tensor:
    total = output["boxes"].new_zeros(())
    for boxes, scores, target in zip(output["boxes"], output["scores"], targets, strict=True):
        count = len(target["labels"])
        total = (
            total
            + F.l1_loss(boxes[:count], target["boxes"])
            + F.cross_entropy(scores[:count], target["labels"])
        )
    return total / len(targets)


class Transfer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)
        )
        self.backbone.requires_grad_(False)
        self.head = nn.Linear(8, 4)

    def train(self, mode: bool = True) -> Transfer:
        super().train(mode)
        self.backbone.eval()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.backbone(x).flatten(1))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(10, 4)
        self.bias = nn.Parameter(torch.zeros(10))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(self.encode(x).tanh(), self.encode.weight.t(), self.bias)


@dataclass
class Answer:
    logits: torch.Tensor
    hidden: torch.Tensor
    name: str = "answer"


class WithDataclass(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(6, 12), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> Answer:
        hidden = self.body(x).tanh()
        return Answer(self.head(hidden), hidden)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(8), nn.Linear(8, 8)
        self.scale = nn.Parameter(torch.zeros(8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and torch.rand(()) < 0.5:
            return x
        return x + self.scale * self.inner(self.norm(x)).relu()


class StochasticDepth(nn.Module):
    """Layers are skipped at random, and begin as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Experts(nn.Module):
    """Each sample goes to one expert."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 3)
        self.experts = nn.ModuleList(nn.Linear(6, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.gate(x).softmax(1)
        chosen = weights.argmax(1)
        result = x.new_zeros(len(x), 4)
        for number, expert in enumerate(self.experts):
            rows = (chosen == number).nonzero().squeeze(1)
            if len(rows):
                result = result.index_add(0, rows, weights[rows, number, None] * expert(x[rows]))
        return result


class Clip(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.image, self.text = nn.Linear(6, 8), nn.Linear(5, 8)
        self.scale = nn.Parameter(torch.tensor(1.0))

    def forward(self, image: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        left, right = F.normalize(self.image(image), dim=1), F.normalize(self.text(text), dim=1)
        return self.scale.exp() * left @ right.t()


def in_batch(table: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(table, torch.arange(len(table)))


class Lora(nn.Module):
    """The second factor begins at zero: so do the first one's gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(8, 8).requires_grad_(False)
        self.down = nn.Parameter(torch.randn(2, 8) * 0.1)
        self.up = nn.Parameter(torch.zeros(3, 2))
        self.head = nn.Linear(8, 3).requires_grad_(False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.base(x).tanh()
        return self.head(h) + h @ self.down.t() @ self.up.t()


class TimeFirst(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(5, 12), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.gru(x)[0][-1])


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(5, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        return self.out(self.gru(packed)[1][-1])


class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.sign()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return gradient


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


class Custom(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(Cube.apply(StraightThrough.apply(self.first(x)) + 0.5 * self.first(x)))


def tokens(rows: int = 6, length: int = 9, kinds: int = 20) -> torch.Tensor:
    return torch.randint(0, kinds, (rows, length))


def labels(rows: int, kinds: int) -> torch.Tensor:
    return torch.arange(rows) % kinds


def cnn() -> Parts:
    model = ConvNet()
    return {
        "model": model,
        "batch": (torch.randn(8, 3, 10, 10), labels(8, 5)),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.AdamW(model.parameters(), lr=1e-3),
        "dataset_size": 41,
        "batch_size": 8,
    }


def norm_over_samples() -> Parts:
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    return {
        "model": model,
        "batch": (torch.randn(8, 6), labels(8, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    }


def gpt() -> Parts:
    text = tokens(6, 10, 30)
    return {
        "model": GPT(),
        "batch": (text[:, :-1], text[:, 1:]),
        "loss_fn": lambda logits, wanted: F.cross_entropy(logits.flatten(0, 1), wanted.flatten()),
    }


def discriminator() -> Parts:
    model = nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(16 * 4 * 4, 1),
    )  # fmt: skip

    def loss_fn(net: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        real, fake = net(batch), net(torch.randn_like(batch))
        ones, zeros = torch.ones_like(real), torch.zeros_like(fake)
        logits = F.binary_cross_entropy_with_logits
        return logits(real, ones) + logits(fake, zeros)

    return {"model": model, "batch": torch.rand(8, 1, 16, 16) * 2, "loss_fn": loss_fn}


def transfer() -> Parts:
    model = Transfer()
    return {
        "model": model,
        "batch": {"x": torch.randn(6, 3, 8, 8), "labels": labels(6, 4)},
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.SGD(model.head.parameters(), lr=0.1),
    }


def detection() -> Parts:
    targets = [{"boxes": torch.rand(1 + n, 4), "labels": labels(1 + n, 2)} for n in range(4)]
    return {
        "model": Detector(),
        "batch": (torch.randn(4, 3, 6, 6), targets),
        "loss_fn": detection_loss,
    }


def edges() -> torch.Tensor:
    return torch.randint(0, 12, (2, 30))


HEALTHY: dict[str, Callable[[], Parts]] = {
    "convolutions with BatchNorm": cnn,
    "BatchNorm over samples": norm_over_samples,
    "bidirectional LSTM": lambda: {
        "model": Tagger(),
        "batch": (tokens(), tokens(kinds=4)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "transformer encoder": lambda: {
        "model": Encoder(),
        "batch": ((tokens(), torch.arange(9).expand(6, 9) > 6), labels(6, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "causal GPT with tied weights": gpt,
    "VAE that samples": lambda: {"model": VAE(), "batch": torch.randn(16, 12), "loss_fn": elbo},
    "GAN discriminator": discriminator,
    "siamese with a dict batch": lambda: {
        "model": Siamese(),
        "batch": {
            "left": torch.randn(8, 6),
            "right": torch.randn(8, 6),
            "label": (torch.arange(8) % 2).float(),
        },
        "loss_fn": contrastive,
    },
    "graph with an edge list": lambda: {
        "model": GraphNet(),
        "batch": ((torch.randn(12, 5), edges()), labels(12, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "graph with an adjacency": lambda: {
        "model": AdjacencyNet(),
        "batch": ((torch.randn(12, 5), torch.rand(12, 12).softmax(1)), labels(12, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "detector with dicts": detection,
    "frozen backbone": transfer,
    "tied autoencoder": lambda: {
        "model": Tied(),
        "batch": torch.randn(16, 10),
        "loss_fn": nn.MSELoss(),
    },
    "output in a dataclass": lambda: {
        "model": WithDataclass(),
        "batch": (torch.randn(9, 6), labels(9, 3)),
        "loss_fn": lambda answer, wanted: F.cross_entropy(answer.logits, wanted),
    },
    "stochastic depth from zero": lambda: {
        "model": StochasticDepth(),
        "batch": (torch.randn(9, 8), labels(9, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "mixture of experts": lambda: {
        "model": Experts(),
        "batch": (torch.randn(24, 6), labels(24, 4)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "contrastive table of pairs": lambda: {
        "model": Clip(),
        "batch": {"image": torch.randn(9, 6), "text": torch.randn(9, 5)},
        "loss_fn": in_batch,
    },
    "low rank update from zero": lambda: {
        "model": Lora(),
        "batch": (torch.randn(9, 8), labels(9, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "time first": lambda: {
        "model": TimeFirst(),
        "batch": (torch.randn(7, 6, 5), labels(6, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "packed sequences": lambda: {
        "model": Packed(),
        "batch": ((torch.randn(6, 7, 5), torch.tensor([7, 5, 3, 7, 2, 4])), labels(6, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "custom Functions": lambda: {
        "model": Custom(),
        "batch": (torch.randn(9, 6), labels(9, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    },
    "regression by hand": lambda: {
        "model": nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 1)),
        "batch": [torch.randn(16, 5), torch.randn(16, 1)],
        "loss_fn": lambda output, wanted: (output - wanted).abs().mean(),
    },
}  # fmt: skip


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_models_raise_no_alarm(name: str) -> None:
    report = check(**HEALTHY[name]())
    assert [
        str(each) for each in report.checks if each.outcome in (Outcome.FAILED, Outcome.WARNING)
    ] == []
    assert report.ok
    assert report["runs"].outcome is Outcome.PASSED
    assert report["gradients"].outcome is Outcome.PASSED


def test_few_checks_of_a_plain_model_are_left_out() -> None:
    report = check(**cnn())
    assert [each.name for each in report.having(Outcome.UNCHECKED)] == ["schedule"]


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.jit.script(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Queue(nn.Module):
    """Keeps what it has seen in a buffer, on purpose."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.register_buffer("queue", torch.randn(16, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        code = self.body(x)
        scores = code @ self.queue.clone().t()
        self.queue = torch.cat((code.detach(), self.queue))[:16]
        return scores


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning")
@pytest.mark.parametrize(
    ("make", "batch", "loss_fn"),
    [
        (Scripted, (torch.randn(8, 6), torch.arange(8) % 3), nn.CrossEntropyLoss()),
        (Queue, (torch.randn(8, 6), torch.arange(8)), nn.CrossEntropyLoss()),
        (
            lambda: nn.EmbeddingBag(20, 3, sparse=True),
            (torch.arange(32).view(8, 4) % 20, torch.arange(8) % 3),
            nn.CrossEntropyLoss(),
        ),
        (
            lambda: nn.utils.spectral_norm(nn.Linear(6, 3)),
            (torch.randn(8, 6), torch.arange(8) % 3),
            nn.CrossEntropyLoss(),
        ),
        (
            lambda: nn.Linear(6, 3),
            (torch.randn(1, 6), torch.zeros(1, dtype=torch.long)),
            nn.CrossEntropyLoss(),
        ),
        (lambda: nn.Linear(6, 3), (torch.zeros(8, 6), torch.arange(8) % 3), nn.CrossEntropyLoss()),
        (
            lambda: nn.Linear(6, 1),
            torch.randn(8, 6),
            lambda net, x: net(torch.randn_like(x)).mean() - net(x).mean(),
        ),
    ],
    ids=["scripted", "queue", "sparse", "spectral norm", "one sample", "zeros", "critic"],
)
def test_odd_healthy_models_raise_no_alarm(
    make: Callable[[], nn.Module], batch: Any, loss_fn: Any
) -> None:
    report = check(make(), batch, loss_fn)
    assert [
        str(each) for each in report.checks if each.outcome in (Outcome.FAILED, Outcome.WARNING)
    ] == []


def test_a_square_batch_is_still_a_batch() -> None:
    report = check(nn.Linear(8, 3), (torch.randn(8, 8), labels(8, 3)), nn.CrossEntropyLoss())
    assert "on its own" in report["dependence"].measured
    assert report["sizes"].outcome is Outcome.PASSED


# broken models


class Linear(nn.Module):
    """A plain classifier; what is wrong with it is put in by the tests."""

    def __init__(self, outputs: int = 3) -> None:
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).tanh())


class WrongSize(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(9, 3)


class Unused(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.forgotten = nn.Linear(8, 8)


class Detached(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).tanh().detach())


class Rounded(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).round())


class Blind(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(torch.ones_like(x))


class AcrossBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(5, 12)
        self.out = nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0][:, -1])


class SoftmaxOverBatch(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).softmax(0))


class AlwaysDropping(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(F.dropout(self.body(x), 0.5))


class Stateful(Linear):
    def __init__(self) -> None:
        super().__init__()
        self.memory = torch.zeros(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.body(x).tanh() + self.memory
        self.memory = h.mean(0).detach()
        return self.head(h)


class WrongCube(Cube):
    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (x,) = ctx.saved_tensors
        return x**2 * gradient  # the factor is missing


class WrongCustom(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(WrongCube.apply(self.body(x)))


class HardCoded(Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.view(8, -1))


class Squeezed(Linear):
    def __init__(self) -> None:
        super().__init__(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x).squeeze()


class FixedState(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(5, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(1, 8, 12)
        return self.out(self.gru(x, state)[0][:, -1])


class Loud(Linear):
    def __init__(self) -> None:
        super().__init__()
        nn.init.normal_(self.head.weight, std=50.0)


def classify(model: nn.Module, **more: Any) -> Parts:
    return {
        "model": model,
        "batch": (torch.randn(8, 6), labels(8, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
        **more,
    }


def sequences(model: nn.Module) -> Parts:
    return {
        "model": model,
        "batch": (torch.randn(8, 7, 5), labels(8, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
    }


def peeking() -> Parts:
    return {**gpt(), "model": GPT(causal=False)}


def replaced_head() -> Parts:
    model = Linear()
    optimizer = torch.optim.Adam(model.parameters())
    model.head = nn.Linear(8, 3)
    return classify(model, optimizer=optimizer)


def left_out() -> Parts:
    model = Linear()
    return classify(model, optimizer=torch.optim.SGD(model.head.parameters(), lr=0.1))


def half_weights() -> Parts:
    model = Linear().half()
    return {
        "model": model,
        "batch": (torch.randn(8, 6).half(), labels(8, 3)),
        "loss_fn": nn.CrossEntropyLoss(),
        "optimizer": torch.optim.Adam(model.parameters()),
    }


def scheduled(kind: Any, planned: int, **options: Any) -> Parts:
    model = Linear()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return classify(
        model, optimizer=optimizer, scheduler=kind(optimizer, **options), planned_steps=planned
    )


def one_cycle() -> Parts:
    return scheduled(torch.optim.lr_scheduler.OneCycleLR, 500, max_lr=0.1, total_steps=100)


def unlearnable() -> Parts:
    return classify(Linear(), loss_fn=lambda output, wanted: (output - output.detach()).sum() + 2.0)


BROKEN: dict[str, tuple[Callable[[], Parts], str, Outcome, str]] = {
    "a layer of the wrong size": (
        lambda: classify(WrongSize()),
        "runs",
        Outcome.FAILED,
        "nn.Linear(9, 3)",
    ),
    "float64 into float32": (
        lambda: {**classify(Linear()), "batch": (torch.randn(8, 6).double(), labels(8, 3))},
        "types",
        Outcome.FAILED,
        "self.body(x)",
    ),
    "integers into floats": (
        lambda: {**classify(Linear()), "batch": (torch.ones(8, 6, dtype=torch.long), labels(8, 3))},
        "types",
        Outcome.FAILED,
        "self.body(x)",
    ),
    "a loss that broadcasts": (
        lambda: {
            "model": Linear(1),
            "batch": (torch.randn(8, 6), torch.randn(8)),
            "loss_fn": lambda output, wanted: ((output - wanted) ** 2).mean(),
        },
        "runs",
        Outcome.FAILED,
        "output - wanted",
    ),
    "weights of another scale": (lambda: classify(Loud()), "loss-at-start", Outcome.WARNING, ""),
    "one class": (
        lambda: {
            **classify(Linear(1)),
            "batch": (torch.randn(8, 6), torch.zeros(8, dtype=torch.long)),
        },
        "loss-at-start",
        Outcome.FAILED,
        "",
    ),
    "a layer that is not called": (
        lambda: classify(Unused()),
        "gradients",
        Outcome.FAILED,
        "self.forgotten = nn.Linear(8, 8)",
    ),
    "a detached layer": (
        lambda: classify(Detached()),
        "gradients",
        Outcome.FAILED,
        "self.body = nn.Linear(6, 8)",
    ),
    "a step function": (
        lambda: classify(Rounded()),
        "gradients",
        Outcome.FAILED,
        "self.body = nn.Linear(6, 8)",
    ),
    "inputs that are not used": (
        lambda: classify(Blind()),
        "dependence",
        Outcome.FAILED,
        "class Blind(Linear):",
    ),
    "an LSTM across the batch": (
        lambda: sequences(AcrossBatch()),
        "dependence",
        Outcome.FAILED,
        "self.lstm = nn.LSTM(5, 12)",
    ),
    "softmax over the batch": (
        lambda: classify(SoftmaxOverBatch()),
        "dependence",
        Outcome.FAILED,
        "",
    ),
    "a mask that is missing": (
        peeking,
        "dependence",
        Outcome.FAILED,
        "self.attend = Attention(16, causal=causal)",
    ),
    "dropout in eval mode": (
        lambda: classify(AlwaysDropping()),
        "modes",
        Outcome.FAILED,
        "F.dropout(self.body(x), 0.5)",
    ),
    "state that is kept": (
        lambda: classify(Stateful()),
        "modes",
        Outcome.WARNING,
        "class Stateful(Linear):",
    ),
    "a wrong custom backward": (
        lambda: classify(WrongCustom()),
        "custom-gradients",
        Outcome.FAILED,
        "return x**2 * gradient",
    ),
    "a loss that cannot fall": (unlearnable, "overfitting", Outcome.WARNING, ""),
    "float16 with a small eps": (half_weights, "types", Outcome.FAILED, ""),
    "a replaced layer": (
        replaced_head,
        "optimizer",
        Outcome.FAILED,
        "self.head = nn.Linear(8, outputs)",
    ),
    "weights left out": (left_out, "optimizer", Outcome.FAILED, "self.body = nn.Linear(6, 8)"),
    "no learning rate": (
        lambda: classify(model := Linear(), optimizer=torch.optim.SGD(model.parameters(), lr=0.0)),
        "optimizer",
        Outcome.FAILED,
        "",
    ),
    "a batch size in the code": (
        lambda: classify(HardCoded()),
        "sizes",
        Outcome.FAILED,
        "x.view(8, -1)",
    ),
    "a squeezed batch": (
        lambda: {
            "model": Squeezed(),
            "batch": (torch.randn(8, 6), torch.randn(8)),
            "loss_fn": nn.MSELoss(),
        },
        "sizes",
        Outcome.FAILED,
        "super().forward(x).squeeze()",
    ),
    "a hidden state of fixed size": (
        lambda: sequences(FixedState()),
        "sizes",
        Outcome.FAILED,
        "torch.zeros(1, 8, 12)",
    ),
    "a last batch of one with BatchNorm": (
        lambda: {**norm_over_samples(), "dataset_size": 17, "batch_size": 8},
        "sizes",
        Outcome.FAILED,
        "",
    ),
    "a schedule that raises": (one_cycle, "schedule", Outcome.FAILED, ""),
    "a schedule that climbs again": (
        lambda: scheduled(torch.optim.lr_scheduler.CosineAnnealingLR, 500, T_max=100),
        "schedule",
        Outcome.WARNING,
        "",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_models_fail_the_right_check(name: str) -> None:
    parts, which, outcome, code = BROKEN[name]
    report = check(**parts())
    found = report[which]
    assert found.outcome is outcome, str(report)
    assert found.why
    assert found.fix
    if code:
        assert found.place is not None
        assert found.place.code.startswith(code)
        assert Path(found.place.file).name == Path(__file__).name


def test_an_exception_is_explained_with_its_line() -> None:
    found = check(**classify(WrongSize()))["runs"]
    assert "9 features" in found.measured
    assert "mat1 and mat2" in found.why


def test_what_needs_a_pass_is_not_made_without_one() -> None:
    report = check(**classify(WrongSize()))
    assert report["gradients"].outcome is Outcome.UNCHECKED
    assert report["types"].outcome is Outcome.PASSED


# details


def test_a_batch_of_one_with_batchnorm_is_a_note_unless_it_comes() -> None:
    found = check(**norm_over_samples())["sizes"]
    assert found.outcome is Outcome.PASSED
    assert any("batch of one" in note for note in found.notes)
    assert (
        check(**{**norm_over_samples(), "dataset_size": 18, "batch_size": 8})["sizes"].outcome
        is Outcome.PASSED
    )


def test_another_image_size_is_a_note() -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 36, 3))
    found = check(model, (torch.randn(6, 3, 8, 8), labels(6, 3)), nn.CrossEntropyLoss())["sizes"]
    assert found.outcome is Outcome.PASSED
    assert any("9 x 9 instead of 8 x 8" in note for note in found.notes)


def test_causal_is_asked_on_request() -> None:
    parts = {
        "model": Tagger(),
        "batch": (tokens(), tokens(kinds=4)),
        "loss_fn": nn.CrossEntropyLoss(),
    }
    assert check(**parts, causal=True)["dependence"].outcome is Outcome.FAILED
    assert check(**{**peeking(), "causal": False})["dependence"].outcome is Outcome.PASSED


def test_a_schedule_in_epochs_is_recognised() -> None:
    parts = scheduled(torch.optim.lr_scheduler.CosineAnnealingLR, 500, T_max=10)
    assert check(**parts, dataset_size=400, batch_size=8)["schedule"].outcome is Outcome.PASSED


def test_a_schedule_without_a_horizon_is_not_judged() -> None:
    parts = scheduled(
        torch.optim.lr_scheduler.LambdaLR, 500, lr_lambda=lambda step: min(1.0, step / 100)
    )
    report = check(**parts)
    assert report["schedule"].outcome is Outcome.UNCHECKED
    assert report["optimizer"].outcome is Outcome.PASSED


def test_a_loss_that_is_not_one_number_is_named() -> None:
    found = check(**classify(Linear(), loss_fn=nn.CrossEntropyLoss(reduction="none")))["runs"]
    assert found.outcome is Outcome.FAILED
    assert "(8,)" in found.measured


def test_a_model_that_cannot_be_copied_is_not_checked() -> None:
    class Uncopyable(Linear):
        def __deepcopy__(self, memo: Any) -> Any:
            raise RuntimeError("there is only one of me")

    model = Uncopyable()
    report = check(**classify(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1)))
    assert report.ok
    assert "only one of me" in report["runs"].measured
    assert report["optimizer"].outcome is Outcome.PASSED


@pytest.mark.parametrize(
    ("batch", "loss_fn"),
    [
        ((torch.randn(8, 6), torch.arange(8) % 3), nn.CrossEntropyLoss()),
        ([torch.randn(8, 6), torch.arange(8) % 3], F.cross_entropy),
        ({"x": torch.randn(8, 6), "y": torch.arange(8) % 3}, nn.CrossEntropyLoss()),
        (
            {"inputs": torch.randn(8, 6), "target": torch.arange(8) % 3},
            lambda a, b: F.cross_entropy(a, b),
        ),
        (
            (torch.randn(8, 6), torch.arange(8) % 3),
            lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]),
        ),
        ((torch.randn(8, 6), torch.arange(8) % 3), lambda m, b: F.cross_entropy(m(b[0]), b[1])),
        (torch.randn(8, 6), lambda output: output.square().mean()),
    ],
)
def test_batch_and_loss_may_be_given_in_many_ways(batch: Any, loss_fn: Any) -> None:
    report = check(Linear(), batch, loss_fn)
    assert report["runs"].outcome is Outcome.PASSED, str(report)
    assert report["dependence"].outcome is Outcome.PASSED


# nothing is changed


class Everything(nn.Module):
    """BatchNorm, dropout, buffers, a counter, tied weights, a custom Function,
    random numbers of three kinds.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 6)
        self.norm, self.drop = nn.BatchNorm1d(6), nn.Dropout(0.3)
        self.second = nn.Linear(6, 6)
        self.second.weight = self.first.weight
        self.head = nn.Linear(6, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.count = 0
        self.scale = lambda x: x * self.head.bias.exp().mean()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.seen += len(x)
        h = self.drop(self.norm(Cube.apply(self.first(x))))
        h = self.second(h) + random.random() + float(numpy.random.rand())
        return self.scale(self.head(h))


class Lazy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.LazyLinear(8), nn.LazyLinear(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).relu())


class Raising(Everything):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        super().forward(x)
        raise RuntimeError("after everything was touched")


def state(model: nn.Module, optimizer: Any, batch: Any) -> dict[str, Any]:
    lazy = nn.parameter.UninitializedParameter
    return {
        "weights": {
            name: (
                id(each),
                None if isinstance(each, lazy) else each.detach().clone(),
                each.requires_grad,
            )
            for name, each in (*model.named_parameters(), *model.named_buffers())
        },
        "gradients": {
            name: (id(each.grad), None if each.grad is None else each.grad.clone())
            for name, each in model.named_parameters()
        },
        "modes": [each.training for each in model.modules()],
        "hooks": [
            (list(each._forward_hooks), list(each._forward_pre_hooks), list(each._backward_hooks))
            for each in model.modules()
        ],
        "count": getattr(model, "count", None),
        "optimizer": [
            (key, value.clone() if isinstance(value, torch.Tensor) else value)
            for held in optimizer.state.values()
            for key, value in held.items()
        ]
        if optimizer is not None
        else [],
        "batch": [each.clone() for each in batch],
        "random": (torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].copy()),
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, numpy.ndarray):
        return bool((one == other).all())
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize(
    "kind", [Everything, Raising, Lazy, ConvNet, Tied, Custom, GPT, StochasticDepth]
)
@pytest.mark.parametrize("mode", [True, False])
def test_nothing_that_is_given_is_changed(kind: type[nn.Module], mode: bool) -> None:
    model = kind()
    inputs = {
        ConvNet: torch.randn(8, 3, 10, 10),
        Tied: torch.randn(8, 10),
        StochasticDepth: torch.randn(8, 8),
    }
    batch = (inputs.get(kind, torch.randn(8, 6)), labels(8, 3))
    loss_fn: Any = nn.CrossEntropyLoss()
    if kind is GPT:
        batch = (tokens(8, 9, 30), tokens(8, 9, 30))
        loss_fn = lambda logits, wanted: F.cross_entropy(  # noqa: E731
            logits.flatten(0, 1), wanted.flatten()
        )
    if kind is Tied:
        loss_fn = lambda output, wanted: output.square().mean()  # noqa: E731
    optimizer = None
    if kind not in (Lazy, Raising):
        optimizer = torch.optim.Adam(model.parameters())
        loss_fn(model(batch[0]), batch[1]).backward()
        optimizer.step()
    model.train(mode)
    calls: list[int] = []
    model.register_forward_hook(lambda *_: calls.append(len(calls)))
    before = state(model, optimizer, batch)
    check(model, batch, loss_fn, optimizer)
    after = state(model, optimizer, batch)
    assert [key for key in before if not same(before[key], after[key])] == []
    assert calls == []


def test_a_loss_that_closes_over_the_model_runs_on_its_copy() -> None:
    model = Linear()
    report = check(
        model,
        (torch.randn(8, 6), labels(8, 3)),
        lambda output, wanted: (
            F.cross_entropy(output, wanted) + 0.01 * model.body.weight.square().sum()
        ),
    )
    assert report["runs"].outcome is Outcome.PASSED
    assert all(each.grad is None for each in model.parameters())


def test_a_hook_that_keeps_features_on_the_model_works_on_the_copy() -> None:
    class Featured(Linear):
        def __init__(self) -> None:
            super().__init__()
            self.kept: list[torch.Tensor] = []
            self.body.register_forward_hook(lambda _m, _a, output: self.kept.append(output))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.kept.clear()
            super().forward(x)
            return self.head(self.kept[-1].relu())

    model = Featured()
    report = check(**classify(model))
    assert report["runs"].outcome is Outcome.PASSED, str(report)
    assert report["gradients"].outcome is Outcome.PASSED
    assert model.kept == []


def test_what_the_model_prints_is_swallowed_and_grad_mode_does_not_matter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Chatty(Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("forward")
            return super().forward(x)

    with torch.no_grad():
        report = check(**classify(Chatty()))
        assert not torch.is_grad_enabled()
    assert report.ok
    assert capsys.readouterr().out == ""


def test_a_watch_that_is_on_sees_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with whence.watch(quiet=True) as watch:
        assert not check(**classify(WrongSize())).ok
        model = Linear()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(8, 6)), labels(8, 3)).backward()
            optimizer.step()
    assert watch.findings == ()
    assert watch.report.steps == 3


# the report


def test_the_report_reads_from_the_answer_down() -> None:
    report = check(**classify(Unused()))
    text = str(report)
    assert text.splitlines()[0].startswith("whence check: 1 of 11 checks failed")
    assert "forgotten.weight" in text
    assert not report.ok
    with pytest.raises(CheckFailed, match="forgotten"):
        report.raise_if_failed()
    check(**classify(Linear())).raise_if_failed()


def test_the_document_is_plain_json() -> None:
    document = json.loads(json.dumps(check(**classify(Unused())).to_json()))
    assert document["schema"] == 1
    assert document["ok"] is False
    assert len(document["checks"]) == 11
    gradients = next(each for each in document["checks"] if each["name"] == "gradients")
    assert gradients["outcome"] == "failed"
    assert gradients["place"]["code"] == "self.forgotten = nn.Linear(8, 8)"


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(TypeError, match=r"nn\.Module"):
        check("model", None, nn.MSELoss())  # type: ignore[arg-type]
    with pytest.raises(KeyError, match="no check named"):
        CheckReport(())["gradient"]


# the command

PROGRAM = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.a(x).tanh())

def parts():
    print("building")
    return Net(), (torch.randn(8, 4), torch.arange(8) % 3), nn.CrossEntropyLoss()

def with_optimizer():
    model, batch, loss_fn = parts()
    return model, batch, loss_fn, torch.optim.SGD(model.a.parameters(), lr=0.1)

def named():
    model, batch, loss_fn = parts()
    return {"model": model, "batch": batch, "loss_fn": loss_fn, "dataset_size": 17, "batch_size": 8}

def loud():
    model, batch, loss_fn = parts()
    model.b.weight.data.mul_(1000)
    return model, batch, loss_fn

def raising():
    raise ValueError("no data here")

def wrong():
    return 3

def unknown():
    return {**named(), "epochs": 3}

def needs(path):
    return parts()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the working directory, under a name that no other test has imported."""
    name = f"program_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return name


def test_command_passes_a_healthy_model(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{program}:parts"]) == 0
    assert "whence check: " in capsys.readouterr().out
    assert main([f"{program}.py:named"]) == 0


def test_command_fails_with_one(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{program}:with_optimizer"]) == 1
    assert "1 of 11 checks failed" in capsys.readouterr().out
    assert main([f"{program}:with_optimizer", "--fail-on", "never"]) == 0


def test_warnings_count_on_request(program: str) -> None:
    assert main([f"{program}:loud", "--quiet"]) == 0
    assert main([f"{program}:loud", "--quiet", "--fail-on", "warning"]) == 1


def test_quiet_says_only_what_failed(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"{program}:parts", "--quiet"]) == 0
    assert capsys.readouterr().out == "building\n"
    assert main([f"{program}:with_optimizer", "--quiet"]) == 1
    said = capsys.readouterr().out
    assert "optimizer" in said
    assert "overfitting" not in said


def test_json_on_stdout_is_nothing_but_json(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"{program}:parts", "--json", "-"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["ok"] is True
    assert "whence check" in captured.err
    assert main([f"{program}:parts", "--json", "check.json"]) == 0
    assert json.loads(Path("check.json").read_text())["schema"] == 1


def test_an_exception_of_the_users_is_shown_as_theirs(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([f"{program}:raising"]) == 2
    said = capsys.readouterr().err
    assert "ValueError: no data here" in said
    assert "whence/cli" not in said
    assert f"calling {program}:raising raised ValueError" in said


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("{}", "expected module:name"),
        ("{}:", "expected module:name"),
        ("no_such_module:parts", "no module named 'no_such_module'"),
        ("no_such.py:parts", "no file at no_such.py"),
        ("{}:nothing", "does not define 'nothing'; it defines"),
        ("{}:wrong", "it returned a int"),
        ("{}:unknown", "unknown name epochs"),
        ("{}:needs", "callable without arguments"),
    ],
)
def test_wrong_usage_says_what_was_expected(program: str, target: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        main([target.format(program)])
    with pytest.raises(UsageError, match="--fail-on must be one of"):
        main([f"{program}:parts", "--fail-on", "sometimes"])
    with pytest.raises(UsageError, match="cannot write --json"):
        main([f"{program}:parts", "--json", "no/such/folder.json"])


def test_what_torch_itself_raises_is_explained_where_no_line_of_the_program_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "counts_from_one.py").write_text(
        "import torch\nfrom torch import nn\n"
        "from torch.utils.data import DataLoader, TensorDataset\n"
        "def parts():\n"
        "    data = TensorDataset(torch.randn(8, 4), torch.arange(8) % 3 + 1)\n"
        "    return nn.Linear(4, 3), DataLoader(data, batch_size=8), nn.CrossEntropyLoss()\n"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["counts_from_one:parts"]) == 1
    assert "label 3 is out of range" in capsys.readouterr().out


def test_layers_without_dropout_are_not_named_for_what_differs_in_train_mode() -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.rnn, self.head = (
                nn.BatchNorm1d(6),
                nn.GRU(6, 8, batch_first=True),
                nn.Linear(8, 3),
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.norm(x).unsqueeze(1))[0][:, -1])

    report = check(Tagger(), (torch.randn(8, 6), labels(8, 3)), nn.CrossEntropyLoss())
    assert report["modes"].measured.endswith("train mode differs, because of BatchNorm1d")
