"""Ranking losses: the score of an observed item against that of a random one."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.lineage.dependence import slope
from whence.rules.loss.probabilities import argument
from whence.rules.operations import SAME_NUMBERS
from whence.rules.telling import place_of, silent_finding, spot_at
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.spots import Spot
from whence.tape.replay import is_weight
from whence.tape.slices import is_random
from whence.tape.tape import Call, Value

FEWEST, SMALLEST = 32, 16
"""Fewest pairs, and smallest table, that show the kind of sampling."""
EVEN, UNEVEN = 3.0, 6.0
"""Deviations of row counts from uniform sampling: at most EVEN if random, above UNEVEN if not."""


def random_ranked_first(study: Study) -> Finding | None:
    """Report a difference of scores that pushes random items above observed ones."""
    for loss, call in study.loss_calls():
        pair = _scores(call)
        rows = _rows(study, *pair) if pair is not None else None
        if pair is None or rows is None or not _are_similarities(study, *pair):
            continue
        push = _push(study, loss, call)
        if push is None:
            continue
        # The item whose score rises when the loss falls, and the other one.
        raised, lowered = rows if push < 0 else rows[::-1]
        if not _is_drawn(study, raised, lowered):
            continue
        spot = place_of(call, study)
        return silent_finding(
            study,
            "loss/sign",
            spot=spot,
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.INFO,
            confidence=Confidence.HINT,
            verdict="the score difference may have the wrong sign: random items are ranked above "
            "observed ones",
            what="the loss falls when the scores of random items rise above the others",
            why="One item of each pair is drawn uniformly at random, the other comes from the "
            "data. The model learns to prefer the random one.",
            fix="Swap the two scores in the difference; keep it as it is if a smaller score is "
            "better.",
            patch=_exchanged(spot),
            replay="bit-identical",
        )
    return None


def _scores(call: Call) -> tuple[Value, Value] | None:
    if (
        call.name.strip("_") not in ("sub", "subtract", "rsub")
        or call.inner
        or len(call.operands) != 2
    ):
        return None
    one, other = call.operands if call.name.strip("_") != "rsub" else call.operands[::-1]
    alike = (
        one.requires_grad and other.requires_grad and one.shape == other.shape and one is not other
    )
    return (one, other) if alike and one.numel >= FEWEST else None


@dataclass(frozen=True, slots=True)
class Lookup:
    """Rows of a table, and their indices."""

    numbers: Value
    table: Value


def _rows(study: Study, one: Value, other: Value) -> tuple[Lookup, Lookup] | None:
    """The rows that only one of the two scores depends on, for each of them, from one table."""
    ones, others = _lookups(study, one), _lookups(study, other)
    own, its = ones - others, others - ones
    if len({each.numbers for each in own}) != 1 or len({each.numbers for each in its}) != 1:
        return None
    return next(
        ((first, second) for first in own for second in its if first.table is second.table), None
    )


def _lookups(study: Study, score: Value) -> set[Lookup]:
    found = set()
    for call in study.path(score):
        if call.name == "embedding":
            numbers, table = argument(call, 0, "input"), argument(call, 1, "weight")
        elif call.name == "__getitem__" and len(call.args) == 2 and is_weight(call.operands[0]):
            numbers, table = (each if isinstance(each, Value) else None for each in call.args[::-1])
        else:
            continue
        if numbers is not None and table is not None and numbers.numel >= FEWEST:
            found.add(Lookup(numbers, table))
    return found


def _are_similarities(study: Study, *scores: Value) -> bool:
    """Whether some scores are negative: distances are not, and there smaller is better."""
    contents = [study.content(each) for each in scores]
    return any(bool((each < 0).any()) for each in contents if each is not None)


def _push(study: Study, loss: Loss, call: Call) -> float | None:
    """The slope of the loss in the difference, if its sign is the same for all pairs."""
    gradient = (
        slope(study.run, loss.value, call.outputs[0])
        if study.run is not None and call.outputs
        else None
    )
    if gradient is None or not bool(gradient.any()) or not math.isfinite(float(gradient.sum())):
        return None
    return (
        float(gradient.sum())
        if bool((gradient >= 0).all()) or bool((gradient <= 0).all())
        else None
    )


def _is_drawn(study: Study, rows: Lookup, observed: Lookup) -> bool:
    """Whether only the first rows are random: drawn on the tape, or uniformly distributed."""
    drawn = [
        is_random(call) for each in (rows, observed) if (call := _source(each.numbers)) is not None
    ]
    if any(drawn):
        return len(drawn) == 2 and drawn[0] and not drawn[1]
    uneven = [_unevenness(study, each) for each in (rows, observed)]
    return (
        uneven[0] is not None
        and uneven[1] is not None
        and abs(uneven[0]) < EVEN
        and uneven[1] > UNEVEN
    )


def _source(value: Value) -> Call | None:
    call = value.call
    while call is not None and call.name in SAME_NUMBERS and call.operands and not call.forgotten:
        call = call.operands[0].call
    return call


def _unevenness(study: Study, rows: Lookup) -> float | None:
    """How far the row counts are from uniform, in standard deviations (chi-squared)."""
    numbers, size = study.content(rows.numbers), rows.table.shape[0]
    if (
        numbers is None
        or size < SMALLEST
        or numbers.is_floating_point()
        or numbers.numel() < FEWEST
    ):
        return None
    counts = torch.bincount(numbers.detach().reshape(-1).long(), minlength=size).double()
    if len(counts) != size:
        return None
    expected = numbers.numel() / size
    square = float(((counts - expected) ** 2).sum()) / expected
    return (square - (size - 1)) / math.sqrt(2 * (size - 1))


def _exchanged(spot: Spot | None) -> str | None:
    match spot.node() if spot is not None else None:
        case ast.BinOp(left=left, op=ast.Sub(), right=right) as node if spot is not None:
            sides = (in_parentheses(spot.filename, each) for each in (right, left))
            return diff_of(replace_node(spot.filename, node, " - ".join(sides)))
    return None
