"""A real-valued target was cut to integers.

What happened
    Targets of a regression were cast to an integer type: 0.7 became 0.
Why it matters
    What lies behind the point is lost; the model learns a staircase, and the loss has a floor that nobody sees.
How it is detected
    A loss that takes its target as a number was given integers, or numbers made from integers. Their type is followed back to the cast, which
    was seen to drop fractions.
How to fix it
    Keep the targets float.
When it stays silent
    Classes, counts and other targets that were whole numbers before the cast.
Cost
    A walk over the tape in a few recorded steps, where a target is an integer.
"""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.lineage.properties import HasDtype
from whence.lineage.trail import trace
from whence.rules.loss.probabilities import SAME_NUMBERS
from whence.rules.operations import SAME_SHAPE_LOSSES
from whence.rules.rule import study_rule
from whence.rules.telling import dtype_name, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.tape import CASTS, Cut, Value

MEETING = SAME_SHAPE_LOSSES | {"sub", "__sub__", "__rsub__"}


@study_rule("dtype/truncated-target")
def truncated_target(study: Study) -> Finding | None:
    for _, call in study.loss_calls():
        if call.name not in MEETING or len(call.operands) < 2 or call.site is None:
            continue
        target = next((each for each in call.operands[:2] if not each.requires_grad), None)
        prediction = next((each for each in call.operands[:2] if each.requires_grad), None)
        whole = _whole(target) if target is not None else None
        if whole is None or prediction is None or whole.dtype in (torch.bool, torch.uint8):
            continue
        trail = trace(whole, HasDtype(whole.dtype), study)
        cut = _cut_at(trail.spot, study) if trail.spot is not None else None
        if trail.spot is None or cut is None:
            continue
        return tell_silent(
            study,
            "dtype/truncated-target",
            spot=trail.spot,
            symptom=Spot.of_site(call.site),
            step=study.step,
            op=trail.op,
            phase=trail.phase,
            verdict=f"real-valued targets were cut to {dtype_name(whole.dtype)}: {cut.example:.4g} became {int(cut.example)}",
            what=f"{call.name} compares predictions with whole numbers",
            why=f"{cut.lost / cut.seen:.0%} of what was cast has fractions, and a cast to an integer type drops them.",
            fix="Keep the targets float.",
            chain=trail.hops,
            patch=_patch(trail.spot),
        )
    return None


def _whole(value: Value) -> Value | None:
    """The integers that a target is, or was made from."""
    for _ in range(20):
        if not value.dtype.is_floating_point:
            return value
        call = value.call
        if call is None or call.name not in SAME_NUMBERS or not call.operands:
            return None
        value = call.operands[0]
    return None


def _cut_at(spot: Spot, study: Study) -> Cut | None:
    """What the cast at a line has lost, if that is more than a few numbers."""
    for site, cut in study.tape.cuts.items():
        if (site.filename, site.f_lineno) == (spot.filename, spot.line) and cut.lost > 0.05 * cut.seen:
            return cut
    return None


def _patch(spot: Spot) -> str | None:
    node = spot.node()
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in CASTS:
        return None
    return diff_of(replace_node(spot.filename, node, f"{ast.unparse(node.func.value)}.float()"))
