"""A box has no area.

What happened
    Boxes whose right edge is left of their left edge, or whose lower edge is above the upper edge,
    reached a computation of areas: centres and sizes used as corners, or corners in another order.
Why it matters
    Their area is negative, or zero after a clamp. Overlaps are wrong, and where they are clamped
    the gradient is zero.
How it is detected
    The difference of two columns of one table, two columns apart, is multiplied into an area.
    Targets with a negative difference are traced back to the line that computed them.
How to fix it
    Convert the boxes to corners (x1, y1, x2, y2) where they are created.
When it stays silent
    For padding boxes of zeros, and for predictions that are still out of order in the first steps.
Cost
    A pass over the tape of a few recorded steps, and a replay where there are such differences.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.ledgers.study import Study
from whence.lineage.properties import Shows
from whence.lineage.trail import trace
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import describe, silent_finding, spot_at
from whence.tape.tape import Call, Value

DIFFERENCES = frozenset({"sub", "__sub__", "subtract"})
PASSING = frozenset(
    {
        "clamp",
        "clamp_min",
        "clip",
        "relu",
        "__getitem__",
        "select",
        "unbind",
        "squeeze",
        "unsqueeze",
    }
)
PRODUCTS = frozenset({"mul", "__mul__", "multiply", "prod"})
COLUMNS = (4, 5, 6)
MOST_WRONG = 0.05


@study_rule("loss/degenerate-box", Rank.CAUSE)
def degenerate_box(study: Study) -> Finding | None:
    calls = sorted((call for _, call in study.loss_calls()), key=lambda each: each.number)
    for call in reversed(calls):
        table = _table(call) if call.name in DIFFERENCES and len(call.operands) == 2 else None
        if table is None or table.requires_grad or not _makes_area(call, calls):
            continue
        boxes = _boxes(study, call, table)
        if boxes is None:
            continue
        content = study.content(boxes)
        share = _share_out_of_order(content) if content is not None else 0.0
        if content is None or share <= MOST_WRONG:
            continue
        trail = trace(
            boxes, Shows(partial(_has_box_out_of_order, boxes.shape[-1]), study.tape), study
        )
        x1, y1, x2, y2 = (float(each) for each in content[_out_of_order(content)][0][:4])
        return silent_finding(
            study,
            "loss/degenerate-box",
            spot=trail.spot,
            symptom=spot_at(call.site),
            step=study.step,
            call=boxes.call,
            op=trail.op,
            verdict=f"{share:.0%} of the target boxes have no area: their corners are out of order",
            what=f"a width of {x2 - x1:.4g} and a height of {y2 - y1:.4g} are multiplied into an "
            "area",
            why=f"A box ({x1:.4g}, {y1:.4g}, {x2:.4g}, {y2:.4g}) is used as (x1, y1, x2, y2). It "
            "may be a centre and sizes, or a corner and sizes.",
            fix="Convert the boxes to corners where they are created: (x, y, x + w, y + h), or "
            "(cx - w/2, cy - h/2, cx + w/2, cy + h/2).",
            chain=trail.hops,
            operands=(Operand("boxes", describe(content)),),
            replay="bit-identical",
        )
    return None


def _table(call: Call) -> Value | None:
    """The table whose columns a difference may subtract."""
    value: Value | None = (
        call.operands[0] if call.operands[0].shape == call.operands[1].shape else None
    )
    while value is not None and value.call is not None and value.call.name not in ("stack", "cat"):
        value = value.call.operands[0] if value.call.operands else None
        if value is not None and value.shape and value.shape[-1] in COLUMNS:
            return value
    return None


def _boxes(study: Study, call: Call, table: Value) -> Value | None:
    """The table, if two of its columns, two apart, are subtracted."""
    right, left, whole = (study.content(each) for each in (*call.operands, table))
    if right is None or left is None or whole is None or right.stride() != left.stride():
        return None
    same = right.untyped_storage().data_ptr() == left.untyped_storage().data_ptr()
    is_apart = right.storage_offset() - left.storage_offset() == 2 * whole.stride(-1) > 0
    return table if same and is_apart else None


def _makes_area(call: Call, calls: list[Call]) -> bool:
    """Whether a difference is multiplied with another one, clamped or not."""
    made = {id(each) for each in call.outputs}
    for each in calls:
        if made & {id(value) for value in each.operands}:
            if each.name in PRODUCTS:
                return True
            if each.name in PASSING:
                made |= {id(value) for value in each.outputs}
    return False


def _out_of_order(boxes: Any) -> Any:
    return (boxes[..., 2] < boxes[..., 0]) | (boxes[..., 3] < boxes[..., 1])


def _share_out_of_order(boxes: torch.Tensor) -> float:
    return float(_out_of_order(boxes).float().mean()) if boxes.numel() else 0.0


def _has_box_out_of_order(columns: int, thing: Any) -> bool:
    shape = tuple(getattr(thing, "shape", ()))
    return bool(shape) and shape[-1] == columns and bool(_out_of_order(thing).any())
