"""A real-valued target was cut to integers.

What happened
    Targets of a regression were cast to an integer type: 0.7 became 0.
Why it matters
    What lies behind the point is lost; the model learns a staircase, and the loss has a floor that nobody sees.
How it is detected
    A loss that takes its target as a number was given integers, or real numbers without fractions. That is followed back to where they
    became whole: a cast that was seen to drop fractions; or a line in a dataset, a collate function or before training (`torch.tensor(...,
    dtype=torch.long)`, `.astype(int)`, `int(...)`, a number written into an integer array) that drops them when it runs again, in a child process.
    Class labels that were seen to be blended by interpolate, and cut to whole numbers afterwards.
How to fix it
    Keep the targets float. Resize labels with mode="nearest".
When it stays silent
    Classes, counts and other targets that were whole numbers before the cast; numbers so large that a fraction is nothing beside them.
Cost
    Where a target is an integer, a walk over the tape in a few recorded steps, and a child process.
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
from whence.rules.telling import dtype_name, tell_silent
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
            # The probabilities of a loss that is written by hand. Who casts a factor by name means a step.
            continue
        found = _cut_behind(target, study, fewest=3 if "entropy" in call.name else 1)
        if found is None or not _matters(found[2]):
            continue
        trail, spot, cut, kind = found
        return tell_silent(
            study,
            "dtype/truncated-target",
            spot=spot,
            symptom=Spot.of_site(call.site),
            step=study.step,
            op=trail.op if spot == trail.spot else None,
            phase=trail.phase,
            verdict=f"real-valued targets were cut to {kind}: {cut.example:.4g} became {int(cut.example)}",
            what=f"{call.name} {'multiplies' if call.name in PRODUCTS else 'compares'} predictions with whole numbers",
            why=f"{cut.lost / cut.seen:.0%} of what was cast has fractions, and a cast to an integer type drops them.",
            fix="Keep the targets float.",
            chain=trail.hops,
            patch=_patch(spot),
        )
    return blended_labels(study)


def _cut_behind(target: Value, study: Study, fewest: int) -> tuple[Trail, Spot, Cut, str] | None:
    """Where the numbers of a target became whole, what that has lost, and what they became. `fewest` different ones."""
    value = _made_from(target)
    prop: Property = HasDtype(value.dtype)
    if value.dtype in (torch.bool, torch.uint8) or (
        value.dtype.is_floating_point and not _is_whole(target, study, fewest)
    ):
        return None
    trail = Trail(Birth.UNKNOWN) if value.dtype.is_floating_point else trace(value, prop, study)
    if trail.spot is None:
        # Numbers of Python's have no type, and what was whole may have become real again.
        prop = IsWhole()
        trail = trace(value, prop, study)
    if trail.spot is None:
        return None
    kind = "whole numbers" if value.dtype.is_floating_point else dtype_name(value.dtype)
    if (cut := _cut_at(trail.spot, study)) is not None:
        return trail, trail.spot, cut, kind
    found = cut_seen(trail, study.tape.cuts) or cut_on(
        trail, leaf_behind(value, prop), study.frames
    )
    if found is None:
        return None
    line, cut = found
    if line.made is not None:
        written = line.spot.hop("a number with a fraction is written into it")
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
    """Whether numbers with fractions were written into whole ones on the way to it."""
    seen = (
        study.tape.cuts.get(call.site)
        for call in ancestors(target)
        if call.name in WRITES and call.site
    )
    return any(cut is not None and cut.lost for cut in seen)


def _made_from(value: Value) -> Value:
    """The integers that a target was made from, or what it was before it was brought into shape."""
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
    """Real numbers without fractions. Yes and no are all that an entropy asks for; numbers between 0 and 2 are cut to no more."""
    content = study.content(target)
    if content is None or content.numel() < FEWEST or not content.is_floating_point():
        return False
    content = content.detach().reshape(-1)[:MOST]
    return bool((content == content.trunc()).all()) and len(set(content.tolist())) >= fewest


def _cut_at(spot: Spot, study: Study) -> Cut | None:
    """What the cast at a line has lost."""
    for site, cut in study.tape.cuts.items():
        if (site.filename, site.f_lineno) == (spot.filename, spot.line) and cut.lost:
            return cut
    return None


def _matters(cut: Cut) -> bool:
    """More than a few numbers, and by more than a hair: what is left of a price in cents will do."""
    return cut.lost > 0.05 * cut.seen and cut.high - cut.low < WIDEST


def _patch(spot: Spot) -> str | None:
    """The same with a real type: of a cast, of one of torch's constructors, of what `dtype=torch.` names."""
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
