"""Numbers of one sample that lie along another axis of the rest, as that axis is as long as the batch. Sizes do not tell."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import combinations
from typing import Any

import torch

from whence.finding import Confidence, Finding
from whence.ledgers.study import Loss, Study
from whence.rules.footprints import FIRST, footprints, is_of_data, stand_side_by_side
from whence.rules.nonfinite.telling import number_text
from whence.rules.operations import COMPARISONS, ELEMENTWISE, SAME_SHAPE_LOSSES
from whence.rules.source_operands import operand_nodes, operands_of_study
from whence.rules.telling import shape_text, spot_at, tell_silent
from whence.source.edits import Edit, diff_of, in_parentheses, replace_node
from whence.tape.batches import BatchLeaf
from whence.tape.tape import Call, Value, map_leaves

MEETING = ELEMENTWISE | COMPARISONS | SAME_SHAPE_LOSSES


def along_another_axis(study: Study) -> Finding | None:
    """(16, 1) against (16, 16, 16): what belongs to a sample is given to a row of every sample."""
    for loss, call in study.loss_calls():
        if ("along", call.stack) in study.asked:
            continue
        for wide, narrow in _as_long(call):
            study.asked.add(("along", call.stack))
            if _is_table(study, wide, narrow) or not _belong_together(
                study, loss, call, wide=wide, narrow=narrow
            ):
                continue
            # One number for each sample may be used more than once: to mend one place of several would be another mistake.
            alike = [
                each
                for each in _alike(study, loss, call, wide, narrow)
                if _belong_together(study, loss, each[0], **each[1])
            ]
            found = _tell(
                study,
                loss,
                {
                    call: (wide, narrow),
                    **{each: (pair["wide"], pair["narrow"]) for each, pair in alike},
                },
            )
            if found is not None:
                return found
    return None


def _alike(
    study: Study, loss: Loss, call: Call, wide: Value, narrow: Value
) -> Iterator[tuple[Call, dict[str, Value]]]:
    """Other calls in which values of the same sizes meet."""
    for each in study.path(loss.value):
        for one, other in _as_long(each) if each is not call else ():
            if (one.shape, other.shape) == (wide.shape, narrow.shape):
                yield each, {"wide": one, "narrow": other}


def _belong_together(study: Study, loss: Loss, call: Call, *, wide: Value, narrow: Value) -> bool:
    """Whether both have samples on their first axis, and the same ones."""
    rows = narrow.shape[0]
    if not is_of_data(study, narrow, rows):
        return False
    axes = footprints(study, rows, wide, narrow)
    if axes:
        return axes[wide] == axes[narrow] == FIRST
    return stand_side_by_side(study, rows, one=wide, other=narrow, but=call, end=loss.value)


def _is_table(study: Study, wide: Value, narrow: Value) -> bool:
    """A table of samples by samples, as a graph's: its columns are samples too, or it has met the same numbers along its rows before."""
    rows, path = narrow.shape[0], study.path(wide)
    given = {each for call in path for each in call.operands}
    # A loader that does not batch gives graphs, and not rows of them.
    whole = any(
        isinstance(each.leaf, BatchLeaf) and each.leaf.batch.indices is None
        for each in (*given, wide)
    )
    return narrow in given or whole or any(_picks_columns(call, rows) for call in path)


def _picks_columns(call: Call, rows: int) -> bool:
    """`table[:, nodes]`"""
    index = call.args[1] if call.name == "__getitem__" and len(call.args) > 1 else None
    later = index[1:] if isinstance(index, tuple) else ()
    return any(isinstance(each, Value) and each.shape == (rows,) for each in later)


def _as_long(call: Call) -> Iterator[tuple[Value, Value]]:
    """Operands that both begin with as many rows, where those of the one come to lie along another axis of the other."""
    if call.name not in MEETING or call.inner or call.site is None:
        return
    for one, other in combinations(dict.fromkeys(call.operands), 2):
        wide, narrow = (one, other) if len(one.shape) > len(other.shape) else (other, one)
        missing = len(wide.shape) - len(narrow.shape)
        rows = narrow.shape[0] if narrow.shape else 0
        if missing and rows > 1 and wide.shape[0] == wide.shape[missing] == rows:
            yield wide, narrow


def _tell(study: Study, loss: Loss, meetings: dict[Call, tuple[Value, Value]]) -> Finding | None:
    call, (wide, narrow) = next(iter(meetings.items()))
    rows, missing = narrow.shape[0], len(wide.shape) - len(narrow.shape)
    right = (rows, *(1,) * missing, *narrow.shape[1:])
    before = study.content(loss.value)
    after = study.again(loss.value, alter=partial(_reshaped, meetings, right))
    mended = after.contents.get(loss.value) if after is not None else None
    if (
        before is None
        or mended is None
        or mended.numel() != 1
        or torch.allclose(before, mended, rtol=1e-5)
    ):
        # Where both are only added up it does not matter which is added to which.
        return None
    number = number_text(float(mended.detach()))
    return tell_silent(
        study,
        "loss/broadcast",
        spot=spot_at(call.site),
        symptom=spot_at(loss.call.site),
        call=call,
        step=study.step,
        verdict=f"{shape_text(narrow.shape)} holds one row for each sample and lies along axis {missing} of {shape_text(wide.shape)}, "
        "whose samples are on axis 0",
        what="each sample is met by the numbers of all samples",
        why=f"Axes line up from the right. Axis {missing} happens to be as long as the batch, {rows}, so that nothing raises; "
        "with any other batch size it would.",
        fix=f"Give it the axes that it lacks: {shape_text(right)}.",
        confidence=Confidence.PROVEN,
        operands=operands_of_study(call, (wide, narrow), study),
        patch=_patch(meetings),
        replay="bit-identical",
        counterfactual=f"with another sample in a row of the batch both change at that row only; with {shape_text(right)} the loss of "
        f"the same batch is {number}",
    )


def _reshaped(
    meetings: dict[Call, tuple[Value, Value]],
    right: tuple[int, ...],
    call: Call,
    args: Any,
    kwargs: Any,
) -> tuple[Any, Any]:
    if call not in meetings:
        return args, kwargs
    narrow = meetings[call][1]

    def mend(thing: Any) -> Any:
        same = isinstance(thing, torch.Tensor) and tuple(thing.shape) == narrow.shape
        return thing.reshape(right) if same else thing

    return map_leaves(mend, args), map_leaves(mend, kwargs)


def _patch(meetings: dict[Call, tuple[Value, Value]]) -> str | None:
    edits = {_edit(call, *pair) for call, pair in meetings.items()}
    wanted = [each for each in edits if each is not None]
    whole = len(wanted) == len(edits) and len({each.filename for each in wanted}) == 1
    return diff_of(*wanted) if whole else None


def _edit(call: Call, wide: Value, narrow: Value) -> Edit | None:
    nodes, position = operand_nodes(call), call.operands.index(narrow)
    missing = len(wide.shape) - len(narrow.shape)
    # If what follows the samples fits at several places, only its author knows which is meant.
    elsewhere = [each for each in narrow.shape[1:] if each != 1]
    if (
        position >= len(nodes)
        or call.site is None
        or any(list(wide.shape).count(each) > 1 for each in elsewhere)
    ):
        return None
    node = nodes[position]
    added = f"{in_parentheses(call.site.filename, node)}[:, {', '.join(['None'] * missing)}]"
    return replace_node(call.site.filename, node, added)
