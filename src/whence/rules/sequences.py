"""Language models in a recorded pass: which tokens go in, which are to come out, and by how much they are shifted."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.ledgers.study import Loss, Study
from whence.rules.loss.probabilities import argument
from whence.tape.tape import Call, Value

FEWEST = 64
ALIGNED = 0.999


@dataclass(frozen=True, slots=True)
class Shift:
    """A loss over tokens: at each place the label is the token that stands `by` places later in the input."""

    loss: Loss
    call: Call
    """The cross entropy."""
    embedding: Call
    by: int
    length: int
    batch: int
    supervised: tuple[int, ...]
    """Places of the first sample that have a label."""


def shifts(study: Study) -> list[Shift]:
    """Each token loss of a pass whose labels are the model's own input, shifted by 0, 1 or 2."""
    found: list[Shift] = []
    for loss, call in study.loss_calls():
        target = argument(call, 1, "target") if call.name in ("cross_entropy", "nll_loss") else None
        if target is None:
            continue
        labels = study.content(target)
        for embedding in study.path(loss.value):
            ids = argument(embedding, 0, "input") if embedding.name == "embedding" else None
            tokens = study.content(ids) if ids is not None else None
            if labels is None or tokens is None or labels.is_floating_point() or tokens.dim() != 2:
                continue
            shift = _aligned(tokens, labels, _ignored(call))
            if shift is not None:
                by, length, supervised = shift
                found.append(Shift(loss, call, embedding, by, length, tokens.shape[0], supervised))
                break
    return found


def _ignored(call: Call) -> int:
    given = call.kwargs.get("ignore_index", -100)
    return given if isinstance(given, int) else -100


def _aligned(tokens: torch.Tensor, labels: torch.Tensor, ignored: int) -> tuple[int, int, tuple[int, ...]] | None:
    batch, width = tokens.shape
    if labels.numel() % batch or labels.numel() < FEWEST:
        return None
    rows = labels.reshape(batch, -1)
    length = rows.shape[1]
    kept = rows != ignored
    if int(kept.sum()) < FEWEST or len(set(rows[kept][:256].tolist())) < 3 or not width - 2 <= length <= width:
        return None
    rates = {}
    for by in (1, 0, 2):
        there = min(length, width - by)
        mask = kept[:, :there]
        same = (rows[:, :there] == tokens[:, by : by + there]) & mask
        rates[by] = float(same.sum()) / max(float(mask.sum()), 1.0)
    best = max(rates, key=lambda by: rates[by])
    if rates[best] < ALIGNED or sorted(rates.values())[-2] > 0.98:
        return None
    return best, length, tuple(torch.nonzero(kept[0]).flatten().tolist())


def embedded(shift: Shift) -> Value:
    return shift.embedding.outputs[0]
