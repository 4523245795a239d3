"""Per-sample values aligned with a wrong axis that has the same size as the batch."""

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
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.source.edits import Edit, diff_of, in_parentheses, replace_node
from whence.tape.batches import BatchLeaf
from whence.tape.tape import Call, Value, map_leaves

MEETING = ELEMENTWISE | COMPARISONS | SAME_SHAPE_LOSSES


def misaligned_axis(study: Study) -> Finding | None:
    """(16, 1) with (16, 16, 16): a sample's value is applied to one row of every sample."""
    for loss, call in study.loss_calls():
        if ("along", call.stack) in study.asked:
            continue
        for wide, narrow in _as_long(call):
            study.asked.add(("along", call.stack))
            if _is_table(study, wide, narrow) or not _belong_together(
                study, loss, call, wide=wide, narrow=narrow
            ):
                continue
            # The value may be used in several places; a fix for only one would be another bug.
            alike = [
                each
                for each in _alike(study, loss, call, wide, narrow)
                if _belong_together(study, loss, each[0], **each[1])
            ]
            found = _report(
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
    """Other calls that combine values of the same shapes."""
    for each in study.path(loss.value):
        for one, other in _as_long(each) if each is not call else ():
            if (one.shape, other.shape) == (wide.shape, narrow.shape):
                yield each, {"wide": one, "narrow": other}


def _belong_together(study: Study, loss: Loss, call: Call, *, wide: Value, narrow: Value) -> bool:
    """Whether both have the same samples on their first axis."""
    rows = narrow.shape[0]
    if not is_of_data(study, narrow, rows):
        return False
    axes = footprints(study, rows, wide, narrow)
    if axes:
        return axes[wide] == axes[narrow] == FIRST
    return stand_side_by_side(study, rows, one=wide, other=narrow, but=call, end=loss.value)


def _is_table(study: Study, wide: Value, narrow: Value) -> bool:
    """Whether it is a table of samples by samples, such as the adjacency matrix of a graph."""
    rows, path = narrow.shape[0], study.path(wide)
    given = {each for call in path for each in call.operands}
    # A loader that does not batch yields whole graphs, not rows.
    whole = any(
        isinstance(each.leaf, BatchLeaf) and each.leaf.batch.indices is None
        for each in (*given, wide)
    )
    return narrow in given or whole or any(_picks_columns(call, rows) for call in path)


def _picks_columns(call: Call, rows: int) -> bool:
    """Whether a call indexes columns: `table[:, nodes]`."""
    index = call.args[1] if call.name == "__getitem__" and len(call.args) > 1 else None
    later = index[1:] if isinstance(index, tuple) else ()
    return any(isinstance(each, Value) and each.shape == (rows,) for each in later)


def _as_long(call: Call) -> Iterator[tuple[Value, Value]]:
    """Operands with equally many rows, of which one aligns with a later axis of the other."""
    if call.name not in MEETING or call.inner or call.site is None:
        return
    for one, other in combinations(dict.fromkeys(call.operands), 2):
        wide, narrow = (one, other) if len(one.shape) > len(other.shape) else (other, one)
        missing = len(wide.shape) - len(narrow.shape)
        rows = narrow.shape[0] if narrow.shape else 0
        if missing and rows > 1 and wide.shape[0] == wide.shape[missing] == rows:
            yield wide, narrow


def _report(study: Study, loss: Loss, meetings: dict[Call, tuple[Value, Value]]) -> Finding | None:
    call, (wide, narrow) = next(iter(meetings.items()))
    rows, missing = narrow.shape[0], len(wide.shape) - len(narrow.shape)
    right = (rows, *(1,) * missing, *narrow.shape[1:])
    before = study.content(loss.value)
    after = study.again(loss.value, alter=partial(_reshaped, meetings, right))
    fixed = after.contents.get(loss.value) if after is not None else None
    if (
        before is None
        or fixed is None
        or fixed.numel() != 1
        or torch.allclose(before, fixed, rtol=1e-5)
    ):
        # Where both are only added up, the alignment does not matter.
        return None
    number = number_text(float(fixed.detach()))
    return silent_finding(
        study,
        "loss/broadcast",
        spot=spot_at(call.site),
        symptom=spot_at(loss.call.site),
        call=call,
        step=study.step,
        verdict=f"{shape_text(narrow.shape)} has samples on axis 0 but broadcasts along axis "
        f"{missing} of {shape_text(wide.shape)}",
        what="each sample is combined with the values of all samples",
        why=f"PyTorch aligns shapes from the right. Axis {missing} has the same size as the "
        f"batch, {rows}, so nothing raises; with any other batch size it would.",
        fix=f"Add the missing axes to the smaller tensor: {shape_text(right)}.",
        confidence=Confidence.PROVEN,
        operands=operands_of_study(call, (wide, narrow), study),
        patch=_patch(meetings),
        replay="bit-identical",
        counterfactual="replacing one sample of the batch changes both tensors at that row only; "
        f"with {shape_text(right)} the loss of the same batch is {number}",
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

    def reshape(thing: Any) -> Any:
        same = isinstance(thing, torch.Tensor) and tuple(thing.shape) == narrow.shape
        return thing.reshape(right) if same else thing

    return map_leaves(reshape, args), map_leaves(reshape, kwargs)


def _patch(meetings: dict[Call, tuple[Value, Value]]) -> str | None:
    edits = {_edit(call, *pair) for call, pair in meetings.items()}
    wanted = [each for each in edits if each is not None]
    whole = len(wanted) == len(edits) and len({each.filename for each in wanted}) == 1
    return diff_of(*wanted) if whole else None


def _edit(call: Call, wide: Value, narrow: Value) -> Edit | None:
    nodes, position = operand_nodes(call), call.operands.index(narrow)
    missing = len(wide.shape) - len(narrow.shape)
    # If the other axes fit in several places, the intended one is unknown.
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
