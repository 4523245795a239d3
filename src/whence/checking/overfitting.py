"""One batch can be memorised: a few dozen steps of Adam on a copy clearly lower its loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import torch

from whence.checking.places import place_of_class
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, passed, unchecked, warning
from whence.rules.nonfinite.telling import number_text

RATES = (1e-3, 1e-2, 1e-1)
STEPS = 50
FEWEST = 10
CLEARLY = 0.1
SECONDS = 4.0
TINY = 1e-6


@dataclass(slots=True)
class Attempt:
    rate: float
    losses: list[float]

    @property
    def gain(self) -> float:
        """Share of the first loss that is gone at the best step."""
        finite = [each for each in self.losses if math.isfinite(each)]
        return (self.losses[0] - min(finite)) / max(abs(self.losses[0]), TINY) if finite else 0.0


def check_overfitting(subject: Subject) -> Verdict:
    began = perf_counter()
    attempts: list[Attempt] = []
    for rate in RATES:
        attempt = _train(subject, rate, until=began + SECONDS)
        if attempt is None:
            return unchecked("no weight requires a gradient")
        attempts.append(attempt)
        if attempt.gain >= CLEARLY or perf_counter() - began > SECONDS:
            break
    best = max(attempts, key=lambda each: each.gain)
    first, last = (
        best.losses[0],
        min((each for each in best.losses if math.isfinite(each)), default=math.nan),
    )
    measured = (
        f"{number_text(first)} to {number_text(last)} in {len(best.losses) - 1} steps of Adam "
        f"at {best.rate:g}"
    )
    if best.gain >= CLEARLY or abs(first) < TINY:
        return passed(measured)
    if sum(len(each.losses) - 1 for each in attempts) < FEWEST:
        return unchecked(f"{measured}; too slow for more steps within {SECONDS:g} s")
    return warning(
        measured,
        why=(
            "Training on one batch with fixed random numbers hardly lowered the loss: targets "
            "and predictions do not match, or gradients do not reach the weights."
        ),
        fix=(
            "Fix the other failed checks first; then check the shapes in the loss, the order of "
            "the targets, and detached tensors."
        ),
        place=place_of_class(type(subject.given.model)),
    )


def _train(subject: Subject, rate: float, *, until: float) -> Attempt | None:
    made = subject.fresh()
    weights = [each for each in made.model.parameters() if each.requires_grad]
    if not weights:
        return None
    optimizer = torch.optim.Adam(weights, lr=rate, eps=1e-4 if _is_half(weights) else 1e-8)
    losses: list[float] = []
    for step in range(STEPS + 1):
        optimizer.zero_grad()
        loss = subject.run(made).loss
        losses.append(float(loss.detach()))
        gone = (losses[0] - losses[-1]) / max(abs(losses[0]), TINY)
        if step == STEPS or gone > 0.5 or not math.isfinite(losses[-1]) or perf_counter() > until:
            break
        loss.backward()  # type: ignore[no-untyped-call]
        for each in weights:
            if each.grad is not None and each.grad.layout is not torch.strided:
                each.grad = each.grad.to_dense()
        optimizer.step()
    return Attempt(rate, losses)


def _is_half(weights: Sequence[torch.Tensor]) -> bool:
    return any(each.dtype is torch.float16 for each in weights)
