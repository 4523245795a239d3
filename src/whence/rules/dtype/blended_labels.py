"""Class labels resized like images: interpolation between class 1 and class 3 gives class 2."""

from __future__ import annotations

import ast

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.rules.operations import CLASS_LOSSES, SAME_NUMBERS
from whence.rules.telling import silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.tape import BLENDS, CASTS, Call, Value


def blended_labels(study: Study) -> Finding | None:
    for _, call in study.loss_calls():
        target = call.operands[1] if call.name in CLASS_LOSSES and len(call.operands) > 1 else None
        if (
            target is None
            or target.dtype.is_floating_point
            or ("blended", call.stack) in study.asked
        ):
            continue
        study.asked.add(("blended", call.stack))
        for cast in ancestors(target):
            blend = _blended_before(cast, study) if cast.name in CASTS and cast.operands else None
            if blend is None or blend.site is None or call.site is None:
                continue
            between = study.tape.blends[blend.stack]
            return silent_finding(
                study,
                "dtype/truncated-target",
                spot=Spot.of_site(blend.site),
                symptom=Spot.of_site(call.site),
                call=blend,
                step=study.step,
                verdict=f"{blend.name} interpolated class labels: {between:.4g} is no class and "
                f"was truncated to {int(between)}",
                what=f"{call.name} receives classes that the labels do not contain",
                why="Class ids have no order: half of class 1 and half of class 3 is not class 2. "
                "Interpolation creates wrong classes at the edges of every region.",
                fix='Resize labels with mode="nearest".',
                chain=(Spot.of_site(cast.site).hop(f"{cast.name} drops the fractions"),)
                if cast.site is not None
                else (),
                patch=_nearest(blend.site),
            )
    return None


def _blended_before(cast: Call, study: Study) -> Call | None:
    """The call that interpolated integer labels, if the cast receives its values."""
    value: Value = cast.operands[0]
    while value.call is not None and value.call.name in SAME_NUMBERS and value.call.operands:
        value = value.call.operands[0]
    call = value.call
    return (
        call
        if call is not None and call.name in BLENDS and call.stack in study.tape.blends
        else None
    )


def _nearest(site: Site) -> str | None:
    node = site.node()
    words = {each.arg: each.value for each in node.keywords} if isinstance(node, ast.Call) else {}
    mode = words.get("mode")
    # mode="nearest" raises if align_corners is passed.
    if not isinstance(mode, ast.Constant) or "align_corners" in words:
        return None
    return diff_of(replace_node(site.filename, mode, '"nearest"'))
