"""Silent mistakes in computations, a few lines each, beside intended look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from forking import in_child
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import whence

Loss = Callable[[], Tensor]


def _features(width: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, width))


def _train(net: nn.Module, loss_of: Loss, steps: int = 4) -> None:
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def speech(last: Callable[..., Tensor]) -> None:
    net = _features(5)
    text, frames, letters = torch.randint(1, 5, (4, 3)), torch.full((4,), 12), torch.full((4,), 3)
    _train(net, lambda: F.ctc_loss(last(net(torch.randn(12, 4, 6)), dim=-1), text, frames, letters))


def ended_games(opposite: Callable[[Tensor], Tensor]) -> None:
    net = _features(1)

    def loss() -> Tensor:
        x, done = torch.randn(16, 6), (torch.rand(16) < 0.3).to(torch.uint8)
        return F.mse_loss(net(x).squeeze(-1), x[:, 0] * opposite(done))

    _train(net, loss)


def patches(cut: Callable[[Tensor], Tensor]) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(108, 12), nn.ReLU(), nn.Linear(12, 2))
    images, labels = torch.rand(16, 3, 12, 12), torch.randint(0, 2, (16,))
    _train(net, lambda: F.cross_entropy(net(cut(images)).mean(1), labels))


def smaller_labels(mode: str) -> None:
    torch.manual_seed(0)
    net = nn.Conv2d(4, 4, 3, stride=2, padding=1)
    mask = torch.randint(0, 4, (4, 1, 12, 12))

    def loss() -> Tensor:
        x = F.one_hot(mask[:, 0], 4).permute(0, 3, 1, 2).float()
        return F.cross_entropy(
            net(x), F.interpolate(mask.float(), size=(6, 6), mode=mode).squeeze(1).long()
        )

    _train(net, loss)


def soft_labels(like: Callable[[Tensor], Tensor]) -> None:
    net = _features(3)

    def loss() -> Tensor:
        hard = F.one_hot(torch.randint(0, 3, (16,)), 3)
        soft = like(hard)
        soft[:] = 0.3 * hard + 0.7 * hard.flip(0)
        return -(soft * F.log_softmax(net(torch.randn(16, 6)), dim=1)).sum(1).mean()

    _train(net, loss)


def two_views(compare: Callable[[Tensor, Tensor], Tensor]) -> None:
    net = _features(8)

    def loss() -> Tensor:
        x = torch.randn(16, 6)
        return compare(net(x), net(x + 0.1 * torch.randn_like(x)))

    _train(net, loss)


def _told_apart(a: Tensor, b: Tensor) -> Tensor:
    z = F.normalize(torch.cat([a, b]), dim=0)
    return F.cross_entropy(z @ z.t(), torch.arange(16).roll(8).repeat(2))


def _correlated(a: Tensor, b: Tensor) -> Tensor:
    return (F.normalize(a, dim=0).T @ F.normalize(b, dim=0) - torch.eye(8)).square().mean()


def survival(dim: int) -> None:
    net = _features(5)
    data = TensorDataset(torch.randn(64, 6), torch.randint(0, 5, (64, 1)))

    def loss() -> Tensor:
        x, t = next(iter(DataLoader(data, batch_size=16, shuffle=True)))
        alive = torch.cumprod(1 - torch.sigmoid(net(x)), dim=dim)
        return -torch.log(alive.gather(1, t) + 1e-6).mean()

    _train(net, loss)


def at_risk() -> None:
    net = _features(2)
    data = TensorDataset(torch.randn(64, 6), torch.rand(64))

    def loss() -> Tensor:
        x, time = next(iter(DataLoader(data, batch_size=16, shuffle=True)))
        risk = net(x[torch.argsort(time, descending=True)])
        return (torch.logcumsumexp(risk, dim=0) - risk).mean()

    _train(net, loss)


def labels_from_one() -> None:
    torch.manual_seed(0)
    net = nn.Conv2d(1, 3, 3, padding=1)
    mask = torch.randint(0, 4, (4, 8, 8), dtype=torch.uint8)
    _train(
        net,
        lambda: F.cross_entropy(net(mask[:, None].float()), (mask - 1).long(), ignore_index=255),
    )


def routed(axis: int) -> None:
    net = _features(24)

    def loss() -> Tensor:
        votes = net(torch.randn(16, 6)).view(16, 4, 2, 3)
        shares = torch.einsum("bije,bje->bij", votes, votes.mean(1)).softmax(axis)
        return torch.einsum("bij,bije->bje", shares, votes).square().mean()

    _train(net, loss)


def relative() -> None:
    net = _features(8)

    def loss() -> Tensor:
        scores = F.pad(net(torch.randn(4, 8, 6)), (1, 0))
        return scores.view(4, 9, 8)[:, 1:].softmax(-1).square().mean()

    _train(net, loss)


def graphs(pooled: Callable[[Tensor], Tensor]) -> None:
    net = _features(4)
    data = [(torch.randn(5, 6), torch.rand(4)) for _ in range(48)]

    def joined(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        return torch.cat([x for x, _ in rows]), torch.stack([y for _, y in rows])

    def loss() -> Tensor:
        loader = DataLoader(data, 12, shuffle=True, collate_fn=joined)  # type: ignore[arg-type]
        x, y = next(iter(loader))
        return F.mse_loss(pooled(net(x)), y)

    _train(net, loss)


class Sharpness(torch.autograd.Function):
    """One value of a softmax, which is unchanged if all logits grow equally."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, factor: float) -> Tensor:
        p = logits.softmax(-1)
        ctx.save_for_backward(p)
        ctx.factor = factor
        return p.square().sum(-1).mean()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (p,) = ctx.saved_tensors
        return grad * ctx.factor * p * (p - p.square().sum(-1, keepdim=True)) / len(p), None


def sharpened(factor: float) -> None:
    net = _features(5)
    _train(net, lambda: Sharpness.apply(net(torch.randn(16, 6)), factor))


@pytest.mark.parametrize(
    ("rule", "program"),
    [
        ("loss/not-log-probabilities", lambda: speech(F.softmax)),
        ("dtype/uint8-wrap", lambda: ended_games(lambda done: ~done)),
        ("shape/reshape-as-permute", lambda: patches(lambda x: x.reshape(16, 4, 108))),
        ("dtype/truncated-target", lambda: smaller_labels("bilinear")),
        ("dtype/truncated-target", lambda: soft_labels(torch.zeros_like)),
        ("gradient/wrong-custom", lambda: sharpened(1.0)),
        ("shape/reshape-as-permute", lambda: graphs(lambda x: x.view(5, 12, 4).mean(0))),
    ],
)
def test_a_mistake_that_raises_nothing_is_named(
    rule: str, program: Callable[[], None], tmp_path: Path
) -> None:
    assert rule in _said(program, tmp_path, ("warning", "error"))


@pytest.mark.parametrize(
    ("rule", "program"),
    [
        ("shape/norm-axis", lambda: two_views(_told_apart)),
        ("shape/batch-first", lambda: survival(0)),
    ],
)
def test_what_some_mean_so_is_a_note(
    rule: str, program: Callable[[], None], tmp_path: Path
) -> None:
    assert rule in _said(program, tmp_path, ("info",))


@pytest.mark.parametrize(
    "program",
    [
        lambda: speech(F.log_softmax),
        lambda: ended_games(lambda done: ~done & 1),
        lambda: patches(
            lambda x: x.reshape(16, 3, 2, 6, 2, 6).permute(0, 2, 4, 1, 3, 5).reshape(16, 4, 108)
        ),
        lambda: smaller_labels("nearest"),
        lambda: soft_labels(lambda hard: torch.zeros(hard.shape)),
        lambda: two_views(_correlated),
        lambda: survival(1),
        at_risk,
        labels_from_one,
        lambda: routed(2),
        relative,
        lambda: sharpened(2.0),
        lambda: graphs(lambda x: x.view(12, 5, 4).mean(1)),
    ],
)
def test_what_looks_like_it_and_is_meant_is_left_alone(
    program: Callable[[], None], tmp_path: Path
) -> None:
    assert _said(program, tmp_path, ("warning", "error")) == []


def _said(program: Callable[[], None], folder: Path, levels: tuple[str, ...]) -> list[str]:
    def body() -> None:
        with whence.watch(quiet=True) as watch:
            program()
        print(*(each.rule for each in watch.findings if each.severity.value in levels))

    ran = in_child(body, cwd=folder)
    assert ran.code == 0, ran.stderr
    return ran.stdout.split()
