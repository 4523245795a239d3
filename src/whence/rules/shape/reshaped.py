"""A reshape where axes had to change places."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from itertools import chain
from typing import Any

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.lineage.arrays import Reshape, reshapes_of_program, seen_before
from whence.lineage.properties import HasAxis
from whence.lineage.trail import trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.operations import CONVOLUTIONS, RESHAPES
from whence.rules.rule import audit_rule, study_rule
from whence.rules.shape.mixed import joined_samples_mixed, samples_mixed
from whence.rules.shape.permuting import moved_first, permuted
from whence.rules.shape.pieces import pieces_across_rows
from whence.rules.telling import shape_text, spot_at, tell_silent
from whence.source.spots import Spot
from whence.tape.batches import leaves_of
from whence.tape.tape import Call, Foreign, Value, flatten

Shape = tuple[int, ...]
MOST_KEPT = 16
PATIENCE = 5.0
RULE = "shape/reshape-as-permute"
WHAT = "elements of different places come to stand together"
WHY = "A reshape keeps the elements in their order and only counts them differently; axes change places with permute or transpose."
FIX = "Split or join neighbouring axes with reshape, and change their order with permute or transpose."


@study_rule("shape/reshape-as-permute")
def reshape_as_permute(study: Study) -> Finding | None:
    """view/reshape was used where axes had to be permuted.

    What happened
        A reshape gave a tensor, or an array, the shape that a permutation would have given it. It does not move elements: numbers of
        different places, channels or samples come to stand together.
    Why it matters
        Nothing raises. The model learns on scrambled data, worse or not at all.
    How it is detected
        The sizes before and after, for each reshape that the loss depends on, also by way of a dataset's tensors and samples: an axis goes
        past others, which a reshape cannot do; or channels of a convolution are to become the last axis, and do not fit into a row. Of an array that becomes a tensor: its own sizes and those of the array whose memory it is.
        Pieces of a picture, as many and as large as patches of it, that are cut across its rows and read by a linear layer.
        Where sizes do not tell, the step is run again: rows of which each is made from other samples, that were apart before.
        What numpy does to a sample, or did before training, is seen when those lines run again, in a child process.
    How to fix it
        permute or transpose first, then reshape.
    When it stays silent
        Axes that are only split or only joined, axes of size one, equal sizes that could be either, reshapes that undo one another, rows
        that are moved by one against each other (9, 8 from 8, 9), as in relative attention.
    Cost
        A comparison of sizes for each reshape of a few recorded steps. Once, a child process, if the program reshapes outside of them.
    """
    for call in _candidates(study):
        shapes = _reshaped(call)
        straddling = _straddling(call) if shapes is not None and call.name in RESHAPES else None
        crossed = crossed_axis(*shapes) or straddling if shapes is not None else None
        if shapes is None or crossed is None or call.site is None or call.forgotten:
            continue
        is_array = call.name not in RESHAPES
        return tell_silent(
            study,
            "shape/reshape-as-permute",
            spot=_in_numpy(study, call, crossed) if is_array else Spot.of_site(call.site),
            symptom=Spot.of_site(study.losses[0].call.site)
            if study.losses[0].call.site is not None
            else None,
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=_verdict("reshape" if is_array else call.name, *shapes, crossed)
            if straddling is None
            else f"{call.name} {shape_text(shapes[0])} -> {shape_text(shapes[1])} takes {crossed} numbers of a row for channels",
            what=WHAT,
            why=WHY,
            fix=FIX,
            patch=None
            if is_array
            else permuted(call.site, *shapes)
            if straddling is None
            else moved_first(call.site, "permute(0, 2, 3, 1)"),
        )
    return (
        samples_mixed(study)
        or joined_samples_mixed(study)
        or pieces_across_rows(study)
        or _before_training(study)
    )


def _before_training(study: Study) -> Finding | None:
    """In numpy, in what the program ran before, and copied since: seen when it runs again, once."""
    if study.asked & {RULE} or not study.losses:
        return None
    study.asked.add(RULE)
    known = {
        (each.site.filename, each.site.f_lineno)
        for each in study.tape.calls
        if each.site is not None
    }
    wanted = [
        (file, each) for file, each in reshapes_of_program() if not known & set(_lines(file, each))
    ]
    try:
        found = (
            run_in_child(
                lambda: seen_before(wanted, study.frames).reshapes, PATIENCE, need=Need.PREPARATION
            )
            if wanted
            else []
        )
    except NotPossible:
        return None
    given = {_sizes(each.shape[1:]) for each in _given(study)}
    used = [
        each
        for each in found
        if any(size and size == _sizes(each.after)[-len(size) :] for size in given)
    ]
    return _tell_of_arrays(study, used, spot_at(study.losses[0].call.site))


def _given(study: Study) -> Iterator[torch.Tensor]:
    """What this step was given: the tensors of its batches, or what its models were called with."""
    for _, data in study.now.deliveries:
        yield from (each for _, each in leaves_of(data) if isinstance(each, torch.Tensor))
    yield from (each for entry in study.now.entries for each in entry if each is not None)


def _sizes(shape: tuple[int, ...]) -> Shape:
    return tuple(each for each in shape if each != 1)


def _lines(filename: str, statement: ast.stmt) -> Iterator[tuple[str, int]]:
    last = statement.end_lineno or statement.lineno
    return ((filename, line) for line in range(statement.lineno, last + 1))


@audit_rule("shape/reshape-as-permute")
def reshaped_in_samples(audit: Audit) -> Finding | None:
    """In numpy, where a sample is made, in this process or in workers."""
    for entry in audit.batches.trained() if RULE not in audit.told else ():
        habits = audit.habits_of(entry)
        found = (
            _tell_of_arrays(audit, habits.reshapes, entry.info.built)
            if habits is not None
            else None
        )
        if found is not None:
            return found
    return None


def _tell_of_arrays(
    facts: Study | Audit, reshapes: list[Reshape], symptom: Spot | None
) -> Finding | None:
    for number, each in enumerate(reshapes):
        crossed = crossed_axis(each.before, each.after)
        is_undone = any(later.after == each.before for later in reshapes[number + 1 :])
        if (
            crossed is None
            or is_undone
            or any(earlier.before == each.after for earlier in reshapes[:number])
        ):
            continue
        return tell_silent(
            facts,
            RULE,
            spot=each.spot,
            symptom=symptom,
            op="reshape",
            step=facts.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=_verdict("reshape", each.before, each.after, crossed),
            what=WHAT,
            why=WHY,
            fix=FIX,
        )
    return None


def _verdict(name: str, before: Shape, after: Shape, crossed: int) -> str:
    return f"{name} {shape_text(before)} -> {shape_text(after)} moves the axis of size {crossed} past another, which it cannot do"


def _candidates(study: Study) -> Iterator[Call]:
    """All that a loss is computed from: in the step, in the making of its samples, and before that, in the tensors of its datasets."""
    losses = (each for loss in study.losses for each in ancestors(loss.value))
    samples = (each for each in study.calls if each.phase == "data") if study.losses else ()
    kept = (study.tape.known_value(each) for each in _kept(study)) if study.losses else ()
    return chain(
        losses, samples, (each for value in kept if value is not None for each in ancestors(value))
    )


def _kept(study: Study) -> Iterator[torch.Tensor]:
    """The tensors that the datasets of this step's batches have."""
    for batch, _ in study.now.deliveries:
        dataset: Any = batch.info.dataset
        while hasattr(dataset, "dataset"):
            dataset = dataset.dataset
        held = list(vars(dataset).values())[:MOST_KEPT] if hasattr(dataset, "__dict__") else []
        yield from (each for each in flatten(held) if isinstance(each, torch.Tensor))


def _reshaped(call: Call) -> tuple[Shape, Shape] | None:
    """What a call makes another shape of, past others that only did the same, and the shape that it makes."""
    if not call.outputs:
        return None
    if call.name not in RESHAPES:
        arrays = [each for each in flatten(call.args) if isinstance(each, Foreign) and each.base]
        return (
            (arrays[0].base, call.outputs[0].shape)
            if len(arrays) == 1 and not call.operands
            else None
        )
    value: Value | None = call.operands[0] if call.operands else None
    while (
        value is not None
        and value.call is not None
        and value.call.name in RESHAPES
        and value.call.operands
    ):
        value = value.call.operands[0]
    if value is None or not _has_structure(value):
        return None
    made = _reshaped(value.call) if value.call is not None and not value.call.operands else None
    before, after = made[0] if made is not None else value.shape, call.outputs[0].shape
    # What the last one of several does must be wrong by itself, too.
    is_wrong = (
        crossed_axis(call.operands[0].shape, after) is not None or _straddling(call) is not None
    )
    return (before, after) if is_wrong else None


def _in_numpy(study: Study, call: Call, crossed: int) -> Spot | None:
    """The line that gave an array its shape, before a tensor was made of it."""
    value = call.outputs[0]
    axis = value.shape.index(crossed) - len(value.shape)
    return trace(value, HasAxis(axis, crossed), study).spot or (
        Spot.of_site(call.site) if call.site is not None else None
    )


def crossed_axis(before: Shape, after: Shape) -> int | None:
    """An axis that goes past others, where a reshape is no mere splitting and joining of neighbours."""
    old, new = [each for each in before if each != 1], [each for each in after if each != 1]
    if old == new or len(old) + len(new) < 5:
        return None
    for left, right in _groups(old, new):
        if len(left) > 1 and len(right) > 1 and not _shears(left, right):
            # Of two that have its size afterwards, neither may stand where it stood.
            shared = [size for size in left if size in right and left.count(size) == 1]
            moved = [
                size for size in shared if not set(_places(left, size)) & set(_places(right, size))
            ]
            if moved and (
                len(shared) >= min(len(left), len(right)) - 1 or sorted(left) == sorted(right)
            ):
                return moved[0]
    return None


def _shears(left: list[int], right: list[int]) -> bool:
    """(8, 9) -> (9, 8): each row moves by one against the one before it, as the scores of relative attention are shifted."""
    return len(left) == 2 and left == right[::-1] and abs(left[0] - left[1]) == 1


def _straddling(call: Call) -> int | None:
    """The last axis that a reshape gives to the result of a convolution, if its channels were meant, all of them or a part for each of
    several boxes: they divide by it, and the rows of the picture do not, so that what stands together begins in one row and ends in the next.
    """
    value = call.operands[0]
    before, after = value.shape, call.outputs[0].shape
    if (
        value.call is None
        or value.call.name not in CONVOLUTIONS
        or len(before) != 4
        or len(after) < 3
    ):
        return None
    last, row = after[-1], before[-1]
    if after[0] != before[0] or last < 2 or row < 2 or before[1] % last:
        return None
    return last if last % row and row % last else None


def _groups(old: list[int], new: list[int]) -> Iterator[tuple[list[int], list[int]]]:
    """The smallest runs of neighbouring axes that have as many elements before as after."""
    i = j = 0
    while i < len(old) and j < len(new):
        left, right = [old[i]], [new[j]]
        i, j = i + 1, j + 1
        one, other = left[0], right[0]
        while one != other:
            if one < other and i < len(old):
                left.append(old[i])
                one, i = one * old[i], i + 1
            elif one > other and j < len(new):
                right.append(new[j])
                other, j = other * new[j], j + 1
            else:
                return
        yield left, right


def _places(sizes: list[int], size: int) -> Iterator[tuple[int, int]]:
    """How many elements stand before and behind each axis of a size."""
    for at, each in enumerate(sizes):
        if each == size:
            yield math.prod(sizes[:at]), math.prod(sizes[at + 1 :])


def _has_structure(value: Value) -> bool:
    """Freshly drawn numbers have no order that could be lost."""
    call = value.call
    return call is None or not (
        call.name.startswith("rand") or call.name in ("zeros", "ones", "empty", "full", "arange")
    )
