"""Sequence models in a recorded pass: their input, their target, and the shift between them.

Some receive a whole sequence at once, of tokens or of real numbers. Others run step by step and
receive one token per sample in each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.ledgers.study import Loss, Study
from whence.rules.loss.probabilities import argument
from whence.rules.operations import DISTANCES, SAME_NUMBERS
from whence.tape.tape import Call, Value

FEWEST = 64
ALIGNED = 0.999
FEWEST_STEPS = 4
SHORTEST = 8
FEW = 3
REPEATED = 0.4
"""A step that receives the model's own output, not the true token, is no evidence."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """A model's predictions for each position of each sample, and their axes."""

    value: Value
    sample: int
    time: int

    def at(self, step: int) -> dict[int, int]:
        """One position of the first sample."""
        return {self.sample: 0, self.time: step}


@dataclass(frozen=True, slots=True)
class Shift:
    """A loss over sequences: each label is the input `by` positions later."""

    loss: Loss
    call: Call
    """The cross entropy, or the call that compares predictions with targets."""
    source: Value
    """The input: a series, or the embedded tokens."""
    by: int
    length: int
    batch: int
    supervised: tuple[int, ...]
    """Positions of the first sample that have a label."""
    time: int = 1
    """The axis of the input that holds positions."""
    made: Predictions | None = None
    """The predictions, if the loss uses them as they were made."""

    @property
    def width(self) -> int:
        return self.source.shape[self.time]

    @property
    def begins(self) -> int:
        """The number of the last call before the model receives its input."""
        return self.source.call.number if self.source.call is not None else -1


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
            time = 1
            if shift is None and tokens.shape[0] != tokens.shape[1]:
                shift, time = (
                    _aligned(tokens.T, _by_sample(labels, tokens.shape[1]), _ignored(call)),
                    0,
                )
            if shift is not None:
                by, length, supervised = shift
                source = embedding.outputs[0]
                found.append(
                    Shift(loss, call, source, by, length, tokens.shape[1 - time], supervised, time)
                )
                break
    return found


def _by_sample(labels: torch.Tensor, batch: int) -> torch.Tensor:
    """Labels ordered by position, reordered by sample."""
    return labels.reshape(-1, batch).T if labels.numel() % batch == 0 else labels


def series(study: Study) -> list[Shift]:
    """Each loss over real numbers whose targets are the model's own input, one position later."""
    found: list[Shift] = []
    for loss, call in study.loss_calls():
        made = next((each for each in call.operands[:2] if each.requires_grad), None)
        target = next((each for each in call.operands[:2] if not each.requires_grad), None)
        if (
            call.name not in DISTANCES
            or made is None
            or target is None
            or made.shape != target.shape
        ):
            continue
        if not target.dtype.is_floating_point or len(target.shape) < 2 or target.numel < FEWEST:
            continue
        wanted = study.content(target)
        for source in _real_inputs(study, made, target):
            given = study.content(source)
            axes = _one_on(given, wanted) if given is not None and wanted is not None else None
            if axes is not None:
                length = target.shape[axes[1]]
                places = tuple(range(length - 1))
                predictions = Predictions(made, 0, axes[1])
                found.append(
                    Shift(
                        loss, call, source, 1, length, target.shape[0], places, axes[0], predictions
                    )
                )
                break
    return found


def _real_inputs(study: Study, made: Value, target: Value) -> list[Value]:
    """Float inputs of the predictions, without weights, with the target's batch size and length."""
    lengths = {size for size in target.shape[1:] if size >= SHORTEST}
    found: dict[Value, None] = {}
    for call in study.path(made):
        for value in (*call.operands, *call.outputs):
            is_data = not value.requires_grad and value.dtype.is_floating_point
            if is_data and value.shape[:1] == target.shape[:1] and lengths & set(value.shape[1:]):
                found[value] = None
    return list(found)[:FEW]


def _one_on(given: torch.Tensor, wanted: torch.Tensor) -> tuple[int, int] | None:
    """The time axes of an input and of a target that is a feature of it, one position later."""
    if given.layout is not torch.strided or wanted.layout is not torch.strided:
        # A graph, not a series.
        return None
    for here in range(1, given.dim()):
        for there in range(1, wanted.dim()):
            length = wanted.shape[there]
            if given.shape[here] != length or length < SHORTEST:
                continue
            before = (
                given.detach().movedim(here, 1).flatten(2)
                if given.dim() > 2
                else given.detach()[:, :, None]
            )
            after = (
                wanted.detach().movedim(there, 1).flatten(2)
                if wanted.dim() > 2
                else wanted.detach()[:, :, None]
            )
            if before.shape[2] != after.shape[2] and after.shape[2] != 1:
                continue
            same = (before[:, 1:] == after[:, :-1]).all(0).all(0)
            moves = (before[:, 1:] != before[:, :-1]).float().mean((0, 1)) > 0.5
            alike = same & moves
            if bool(alike.all() if before.shape[2] == after.shape[2] else alike.any()):
                return here, there
    return None


def by_time(shift: Shift) -> Predictions | None:
    """The predictions of a loss over sequences, before they were flattened."""
    if shift.made is not None:
        return shift.made
    logits = argument(shift.call, 0, "input")
    value = logits
    for _ in range(20):
        if value is None:
            return None
        # A loss takes (batch, classes, time); before it, predictions have the tokens' layout.
        sample, time = (0, 2) if value is logits else (1 - shift.time, shift.time)
        if (
            len(value.shape) == 3
            and 0 <= value.shape[time] - shift.length <= 2
            and value.shape[sample] == shift.batch
        ):
            return Predictions(value, sample, time)
        call = value.call
        value = (
            call.operands[0]
            if call is not None and call.operands and call.name in SAME_NUMBERS
            else None
        )
    return None


def _ignored(call: Call) -> int:
    given = call.kwargs.get("ignore_index", -100)
    return given if isinstance(given, int) else -100


def _aligned(
    tokens: torch.Tensor, labels: torch.Tensor, ignored: int
) -> tuple[int, int, tuple[int, ...]] | None:
    batch, width = tokens.shape
    if labels.numel() % batch or labels.numel() < FEWEST:
        return None
    rows = labels.reshape(batch, -1)
    length = rows.shape[1]
    kept = rows != ignored
    if (
        int(kept.sum()) < FEWEST
        or len(set(rows[kept][:256].tolist())) < 3
        or not width - 2 <= length <= width
    ):
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


def repeats_its_input(study: Study) -> Call | None:
    """A loss over single-step predictions whose labels are the inputs of the same steps."""
    for loss, call in study.loss_calls():
        logits = argument(call, 0, "input") if call.name in ("cross_entropy", "nll_loss") else None
        target = argument(call, 1, "target") if logits is not None else None
        if (
            logits is None
            or target is None
            or target.dtype.is_floating_point
            or len(logits.shape) != 2
        ):
            continue
        steps = sorted(_single_steps(study, loss), key=lambda each: each.number)
        labels = study.content(target) if len(steps) >= FEWEST_STEPS else None
        if labels is None:
            continue
        given = [
            study.content(ids) for each in steps if (ids := argument(each, 0, "input")) is not None
        ]
        tokens = [each.reshape(-1) for each in given if each is not None]
        if len(tokens) < FEWEST_STEPS or len(tokens) != len(steps):
            continue
        first = _first_step(study, logits, steps, len(tokens[0]))
        if first is not None and _is_repeated(
            labels.reshape(-1), torch.stack(tokens), first, _ignored(call)
        ):
            return call
    return None


def _is_repeated(
    labels: torch.Tensor, tokens: torch.Tensor, first: tuple[int, bool], ignored: int
) -> bool:
    """Whether the labels are the tokens of their own steps, and not of the next ones."""
    step, by_time = first
    wanted = (
        labels.reshape(-1, tokens.shape[1]) if by_time else labels.reshape(tokens.shape[1], -1).T
    )
    rates = []
    for later in (0, 1):
        there = tokens[step + later :][: len(wanted)]
        kept = wanted[: len(there)] != ignored
        same = (wanted[: len(there)] == there) & kept
        rates.append(float(same.sum()) / max(int(kept.sum()), 1))
        if later == 0 and (
            int(kept.sum()) < FEWEST or len(set(wanted[: len(there)][kept][:256].tolist())) < 3
        ):
            return False
    return rates[0] >= REPEATED and rates[1] < rates[0] / 2


def _first_step(
    study: Study, logits: Value, steps: list[Call], batch: int
) -> tuple[int, bool] | None:
    """The step whose token the first predictions see last, and whether rows are ordered by time."""
    rows = logits.shape[0]
    if rows % batch or not 2 <= rows // batch <= len(steps):
        return None
    length = rows // batch
    middle, other = length // 2, batch // 2
    for by_time in (True, False):
        found = set()
        for time, sample in ((middle, 0), (middle, other), (middle - 1, other)):
            row = time * batch + sample if by_time else sample * length + time
            seen = _last_seen(study, logits, row, steps)
            found.add(seen[0] - time if seen is not None and seen[1] == sample else None)
        if len(found) == 1 and (step := found.pop()) is not None and step >= 0:
            return step, by_time
    return None


def _single_steps(study: Study, loss: Loss) -> list[Call]:
    """Embeddings of one token per sample, with one table and batch size: the largest group."""
    groups: dict[tuple[int, int], list[Call]] = {}
    for call in study.path(loss.value):
        ids = argument(call, 0, "input") if call.name == "embedding" else None
        table = argument(call, 1, "weight") if ids is not None else None
        if ids is not None and table is not None and ids.numel == max(ids.shape, default=0) > 1:
            groups.setdefault((id(table), ids.numel), []).append(call)
    return max(groups.values(), key=len, default=[])


def _last_seen(study: Study, logits: Value, row: int, steps: list[Call]) -> tuple[int, int] | None:
    """The last step whose token a row of predictions depends on, and its sample."""
    run = study.run
    made = run.contents.get(logits) if run is not None else None
    given = [run.contents.get(each.outputs[0]) for each in steps] if run is not None else []
    known = [each for each in given if each is not None and each.requires_grad]
    if made is None or not made.requires_grad or len(known) != len(steps):
        return None
    # Weighted, because probabilities sum to 1 whatever they depend on.
    part = (made[row].double() * torch.arange(made.shape[1]).cos()).sum()
    gradients = torch.autograd.grad(part, known, retain_graph=True, allow_unused=True)
    for number, each in reversed(list(enumerate(gradients))):
        samples = (
            torch.nonzero(each.flatten(0, -2).any(-1)).flatten().tolist()
            if each is not None
            else []
        )
        if samples:
            return (number, samples[0]) if len(samples) == 1 else None
    return None
