"""A real-valued target was truncated to integers.

What happened
    Targets of a regression were cast to an integer dtype: 0.7 became 0.
Why it matters
    The fractional part is lost; the model learns a step function, and the loss cannot fall below an
    unseen floor.
How it is detected
    A regression loss received integers, or floats without fractions. They are traced to where they
    became integers: a cast that was seen to drop fractions, or a line in a dataset, a collate
    function or before training (`torch.tensor(..., dtype=torch.long)`, `.astype(int)`, `int(...)`,
    a value written into an integer array) that drops them when it runs again in a child process.
    Class labels that interpolate was seen to blend and a cast then truncated are found too.
How to fix it
    Keep the targets float. Resize labels with mode="nearest".
When it stays silent
    Classes, counts and other targets that were integers before the cast; values so large that a
    fraction is negligible.
Cost
    If a target is an integer, a walk over the tape in a few recorded steps, and a child process.
"""

from __future__ import annotations

import ast
from dataclasses import replace

import torch

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.lineage.fractions import cut_on, cut_seen, leaf_behind
from whence.lineage.properties import CONSTRUCTORS, HasDtype, IsWhole, Property
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.dtype.blended_labels import blended_labels
from whence.rules.operations import DISTANCES, SAME_NUMBERS
from whence.rules.rule import study_rule
from whence.rules.telling import dtype_name, silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.tape import CASTS, WRITES, Cut, Value

FEWEST = 8
MOST = 4096
WIDEST = 1000.0
PRODUCTS = frozenset({"mul", "__mul__", "__rmul__"})


@study_rule("dtype/truncated-target")
def truncated_target(study: Study) -> Finding | None:
    for _, call in study.loss_calls():
        if call.name not in DISTANCES | PRODUCTS or len(call.operands) < 2 or call.site is None:
            continue
        target = next((each for each in call.operands[:2] if not each.requires_grad), None)
        prediction = next((each for each in call.operands[:2] if each.requires_grad), None)
        if (
            target is None
            or prediction is None
            or ("dtype/truncated-target", call.stack) in study.asked
        ):
            continue
        study.asked.add(("dtype/truncated-target", call.stack))
        if call.name in PRODUCTS and (
            target.dtype.is_floating_point or not _is_written_into(target, study)
        ):
            # A factor of a hand-written loss; an explicit cast of it is a step function on purpose.
            continue
        found = _cut_behind(target, study, fewest=3 if "entropy" in call.name else 1)
        if found is None or not _matters(found[2]):
            continue
        trail, spot, cut, kind = found
        return silent_finding(
            study,
            "dtype/truncated-target",
            spot=spot,
            symptom=Spot.of_site(call.site),
            step=study.step,
            op=trail.op if spot == trail.spot else None,
            phase=trail.phase,
            verdict=f"real-valued targets were truncated to {kind}: {cut.example:.4g} became "
            f"{int(cut.example)}",
            what=f"{call.name} "
            f"{'multiplies' if call.name in PRODUCTS else 'compares'} predictions with integers",
            why=f"{cut.lost / cut.seen:.0%} of the values had a fractional part, which a cast to "
            "an integer type drops.",
            fix="Keep the targets float at the origin.",
            chain=trail.hops,
            patch=_patch(spot),
        )
    return blended_labels(study)


def _cut_behind(target: Value, study: Study, fewest: int) -> tuple[Trail, Spot, Cut, str] | None:
    """Where a target's values became integers, what was lost, and the resulting kind."""
    value = _made_from(target)
    prop: Property = HasDtype(value.dtype)
    if value.dtype in (torch.bool, torch.uint8) or (
        value.dtype.is_floating_point and not _is_whole(target, study, fewest)
    ):
        return None
    trail = Trail(Birth.UNKNOWN) if value.dtype.is_floating_point else trace(value, prop, study)
    if trail.spot is None:
        # Python numbers have no dtype, and truncated values may have become floats again.
        prop = IsWhole()
        trail = trace(value, prop, study)
    if trail.spot is None:
        return None
    kind = "integers" if value.dtype.is_floating_point else dtype_name(value.dtype)
    if (cut := _cut_at(trail.spot, study)) is not None:
        return trail, trail.spot, cut, kind
    found = cut_seen(trail, study.tape.cuts) or cut_on(
        trail, leaf_behind(value, prop), study.frames
    )
    if found is None:
        return None
    line, cut = found
    if line.made is not None:
        written = line.spot.hop("a value with a fraction is written into the integer array")
        known = {(line.made.file, line.made.line), (written.file, written.line)}
        last = max(
            (
                number + 1
                for number, each in enumerate(trail.hops)
                if (each.file, each.line) in known
            ),
            default=0,
        )
        return replace(trail, hops=(written, *trail.hops[last:])), line.made, cut, kind
    return trail, line.spot, cut, kind


def _is_written_into(target: Value, study: Study) -> bool:
    """Whether values with fractions were written into an integer tensor on the way."""
    seen = (
        study.tape.cuts.get(call.site)
        for call in ancestors(target)
        if call.name in WRITES and call.site
    )
    return any(cut is not None and cut.lost for cut in seen)


def _made_from(value: Value) -> Value:
    """The integers that a target was converted from, or the value before it was reshaped."""
    for _ in range(20):
        call = value.call
        if (
            not value.dtype.is_floating_point
            or call is None
            or call.name not in SAME_NUMBERS
            or not call.operands
        ):
            break
        value = call.operands[0]
    return value


def _is_whole(target: Value, study: Study, fewest: int) -> bool:
    """Whether float targets have no fractions, with at least `fewest` different values."""
    content = study.content(target)
    if content is None or content.numel() < FEWEST or not content.is_floating_point():
        return False
    content = content.detach().reshape(-1)[:MOST]
    return bool((content == content.trunc()).all()) and len(set(content.tolist())) >= fewest


def _cut_at(spot: Spot, study: Study) -> Cut | None:
    """What the cast at a line lost."""
    for site, cut in study.tape.cuts.items():
        if (site.filename, site.f_lineno) == (spot.filename, spot.line) and cut.lost:
            return cut
    return None


def _matters(cut: Cut) -> bool:
    """Whether more than 5 % of the values lost a fraction that is not negligible."""
    return cut.lost > 0.05 * cut.seen and cut.high - cut.low < WIDEST


def _patch(spot: Spot) -> str | None:
    """Change a cast, a legacy constructor or a `dtype=` to the float equivalent."""
    node = spot.node()
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    owner = ast.unparse(node.func.value)
    if node.func.attr in CASTS:
        return diff_of(replace_node(spot.filename, node, f"{owner}.float()"))
    if node.func.attr in CONSTRUCTORS:
        return diff_of(replace_node(spot.filename, node.func, f"{owner}.FloatTensor"))
    named = next((each.value for each in node.keywords if each.arg == "dtype"), None)
    if isinstance(named, ast.Attribute) and ast.unparse(named.value) in ("torch", "np", "numpy"):
        return diff_of(replace_node(spot.filename, named, f"{ast.unparse(named.value)}.float32"))
    return None
