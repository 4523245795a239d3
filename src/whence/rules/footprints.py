"""Which values depend on one row of the data, found by replacing it and replaying the pass.

Sizes do not show which axis holds the samples, since other axes may have the same size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import torch

from whence.ledgers.study import Study
from whence.tape.batches import Batch, BatchLeaf, leaves_of
from whence.tape.operations import NORMS
from whence.tape.replay import Run, is_weight
from whence.tape.slices import is_random
from whence.tape.tape import Call, Value, flatten

Axes = frozenset[int]
Amend = Callable[[Call, Run], None]
FIRST: Axes = frozenset({0})
MOST = 50
"""The number of calls searched for paired rows."""


@dataclass(frozen=True, slots=True)
class Changed:
    """The positions along each axis of a value that changed with a row of the data."""

    row: int
    along: list[list[int]]


STATISTICS = frozenset(
    {"mean", "sum", "std", "var", "median", "amax", "amin", "norm", "logsumexp", "max", "min"}
)
SHARES = frozenset({"softmax", "log_softmax", "normalize"})
PICKS = frozenset({"__getitem__", "index_select"})


def footprints(study: Study, rows: int, *values: Value) -> dict[Value, Axes]:
    """The axes on which each value has one position per row of the data.

    Empty if the values do not all depend on the same data. Rows belong together if one batch
    delivered them, or the same index selected them.
    """
    for sources in _groups(study, rows, *values):
        found = _axes_of(study, sources, rows, values)
        if len(found) == len(values):
            return found
    return {}


def stand_side_by_side(
    study: Study, rows: int, *, one: Value, other: Value, but: Call, end: Value
) -> bool:
    """Whether two values of separate data belong together row by row, on the first axis.

    Somewhere else on the way to `end`, without the call `but`, their rows are combined pairwise.
    """
    groups = _groups(study, rows, end)
    mine = [each for each in groups if _axes_of(study, each, rows, [one]) == {one: FIRST}]
    others = [
        each
        for each in groups
        if each not in mine and _axes_of(study, each, rows, [other]) == {other: FIRST}
    ]
    calls = [
        each
        for each in study.path(end)
        if each is not but and not each.inner and len(each.operands) > 1
    ][:MOST]
    pairs = [
        pair for each in calls for pair in permutations(each.operands, 2) if _have_rows(pair, rows)
    ]
    for left in mine if pairs and others else ():
        first = _axes_of(study, left, rows, [pair[0] for pair in pairs])
        for right in others:
            second = _axes_of(
                study, right, rows, [pair[1] for pair in pairs if but not in study.path(pair[1])]
            )
            if any(first.get(pair[0]) == second.get(pair[1]) == FIRST for pair in pairs):
                return True
    return False


def _have_rows(pair: tuple[Value, ...], rows: int) -> bool:
    return len({len(each.shape) for each in pair}) == 1 and all(
        each.shape[:1] == (rows,) for each in pair
    )


def is_chain(study: Study, rows: int, value: Value) -> bool:
    """Whether each row of a value depends on the data rows before it and on none after it."""
    for sources in _groups(study, rows, value):
        last, first = (
            _traced(study, sources, (row, rows), [value]).get(value) for row in (rows - 1, 0)
        )
        if last is not None and first is not None:
            return last.along[0] == [rows - 1] and first.along[0] == [*range(rows)]
    return False


def are_samples(study: Study, value: Value) -> bool:
    """Whether the first axis is rows of data, once or several times, as two views of each are."""
    size = value.shape[0]
    for rows in {
        each.shape[0] for each in _data(study, value) if each.shape and size % each.shape[0] == 0
    }:
        for sources in _groups(study, rows, value) if rows > 1 else ():
            found = _traced(study, sources, (rows - 1, rows), [value]).get(value)
            if found is not None and found.along[0] == [*range(rows - 1, size, rows)]:
                return True
    return False


def places_of(
    study: Study, rows: int, value: Value, correct: Amend | None = None
) -> list[list[int]]:
    """The rows of a value that change with the last and the first data row, after a correction."""
    for sources in _groups(study, rows, value):
        found = [
            _traced(study, sources, (row, rows), [value], correct).get(value)
            for row in (rows - 1, 0)
        ]
        places = [each.along[0] for each in found if each is not None]
        if len(places) == len(found):
            return places
    return []


def is_of_data(study: Study, value: Value, rows: int) -> bool:
    """Whether a value was made from that many rows of data."""
    return bool(_groups(study, rows, value))


def _axes_of(
    study: Study, sources: Sequence[Value], rows: int, values: Sequence[Value]
) -> dict[Value, Axes]:
    """The axes of the values that depend on the sources, confirmed with a second row."""
    last = _traced(study, sources, (rows - 1, rows), values)
    first = _traced(study, sources, (0, rows), values) if last else {}
    return {
        each: _axes(each, places) & _axes(each, first[each])
        for each, places in last.items()
        if each in first
    }


def _groups(study: Study, rows: int, *values: Value) -> list[list[Value]]:
    """The data with that many rows behind the values, grouped by rows that belong together."""
    groups: dict[Any, list[Value]] = {}
    batches = {
        id(leaf): batch for batch, data in study.now.deliveries for _, leaf in leaves_of(data)
    }
    for each in _data(study, *values):
        key = _key(each, rows, batches)
        if key is not None:
            groups.setdefault(key, []).append(each)
    return [*groups.values()]


def _data(study: Study, *values: Value) -> dict[Value, None]:
    """Everything that the values were made from in the pass, and the values."""
    calls = dict.fromkeys(each for value in values for each in study.path(value))
    return dict.fromkeys(
        (*(each for call in calls for each in (*call.operands, *call.outputs)), *values)
    )


def _key(value: Value, rows: int, batches: Mapping[int, Batch]) -> Any:
    """A key for the rows of a value, if they are rows of the data; None if not."""
    batch = value.leaf.batch if isinstance(value.leaf, BatchLeaf) else batches.get(id(value.tensor))
    if is_weight(value) or (
        value.shape[:1] != (rows,) and (batch is None or _joined(value, rows) is None)
    ):
        return None
    if batch is not None:
        return id(batch) if batch.indices is None or len(batch.indices) == rows else None
    call = value.call
    if call is None or call.inner or value not in call.results:
        return None
    if call.name in PICKS and not call.operands[0].requires_grad:
        return _picked_by(call, rows)
    if call.name == "stack" and len(call.operands) == rows and not value.requires_grad:
        # Stacked by the program: other stacks may be in another order.
        return id(value)
    # Random values are grouped only with what is made from them.
    return (
        id(value)
        if is_random(call) and not any(each.requires_grad for each in call.operands)
        else None
    )


def _joined(value: Value, rows: int) -> list[int] | None:
    """The rows per sample of a value whose samples were concatenated, as nodes of graphs are."""
    call = value.call
    axis = (
        call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else 0)
        if call is not None
        else None
    )
    if call is None or call.name != "cat" or axis != 0 or len(call.operands) != rows:
        return None
    return [each.shape[0] for each in call.operands]


def _picked_by(call: Call, rows: int) -> Any:
    index = next((each for each in call.operands[1:] if each.shape == (rows,)), None)
    if index is not None:
        return id(index)
    first = next(flatten(call.args[1:]), None)
    return (
        (first.start, first.stop) if isinstance(first, slice) and first.start is not None else None
    )


def _traced(
    study: Study,
    sources: Sequence[Value],
    at: tuple[int, int],
    values: Sequence[Value],
    correct: Amend | None = None,
) -> dict[Value, Changed]:
    """What changes in each value if one row is replaced."""
    row, rows = at
    shared = [each for value in values for each in study.path(value) if _is_shared(each, rows)]
    made = dict.fromkeys((*values, *(each.results[0] for each in shared if each.results)))
    before = study.again(*made, *sources, amend=correct)
    if before is None:
        return {}
    others = {
        each: _with_row_of_another(_content(study, before, each), row, _joined(each, rows))
        for each in sources
    }
    given = {each: other for each, other in others.items() if other is not None}

    def amend(call: Call, run: Run) -> None:
        if correct is not None:
            correct(call, run)
        for each in call.outputs:
            if each in given:
                run.contents[each] = given[each].clone()
        if call in shared and call.results:
            # Batch statistics combine all samples on purpose.
            _keep_rows_apart(
                call.results[0], row if _has_rows(call.results[0], rows) else None, before, run
            )

    after = study.again(*made, substitute=given, amend=amend)
    if after is None:
        return {}
    pairs = (
        (each, _content(study, before, each), given.get(each, after.contents.get(each)))
        for each in values
    )
    found = ((each, _changed(old, new, row)) for each, old, new in pairs)
    return {each: places for each, places in found if places is not None}


def _content(study: Study, run: Run, value: Value) -> torch.Tensor | None:
    return run.contents[value] if value in run.contents else study.content(value)


def _with_row_of_another(
    content: torch.Tensor | None, row: int, sizes: list[int] | None
) -> torch.Tensor | None:
    if content is None or content.layout is not torch.strided or content.is_meta:
        return None
    changed = content.detach().clone()
    parts = changed.split(sizes or 1)  # type: ignore[no-untyped-call]
    alike = (
        each
        for each in parts
        if each.shape == parts[row].shape and not torch.equal(each, parts[row])
    )
    parts[row].copy_(next(alike, parts[row].flip(0)).clone())
    return changed


def _is_shared(call: Call, rows: int) -> bool:
    """Whether a call combines all samples: a mean, a maximum, a softmax over them."""
    if call.inner or not call.results or not call.operands or not _has_rows(call.operands[0], rows):
        return False
    if call.name in STATISTICS:
        return not _has_rows(call.results[0], rows)
    return call.name in NORMS or (
        call.name in SHARES and 0 in (*call.args[1:2], call.kwargs.get("dim"))
    )


def _has_rows(value: Value, rows: int) -> bool:
    return value.shape[:1] == (rows,)


def _keep_rows_apart(value: Value, row: int | None, before: Run, run: Run) -> None:
    """Restore the old value, except for the row of the replaced sample."""
    old, new = before.contents.get(value), run.contents.get(value)
    if old is not None and new is not None and old.shape == new.shape:
        kept = old.detach().clone()
        if row is not None and kept.dim() and row < len(kept):
            kept[row] = new.detach()[row]
        run.contents[value] = kept


def _changed(before: torch.Tensor | None, after: torch.Tensor | None, row: int) -> Changed | None:
    """The positions that differ; None if none do."""
    if before is None or after is None or before.shape != after.shape:
        return None
    changed = (before != after) & ~(before.isnan() & after.isnan())
    if not bool(changed.any()):
        return None
    along = (
        [changed.movedim(axis, 0).flatten(1).any(1) for axis in range(changed.dim())]
        if changed.dim() > 1
        else [changed]
    )
    return Changed(row, [torch.nonzero(each).flatten().tolist() for each in along])


def _axes(value: Value, changed: Changed) -> Axes:
    """The axes on which only the position of the row changed."""
    return frozenset(
        axis for axis in range(len(value.shape)) if changed.along[axis] == [changed.row]
    )
