"""The silent form of shape/norm-axis: two axes have one size, and the norm uses the wrong one."""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.lineage.ancestry import MOVES
from whence.lineage.constructors import argument_names
from whence.rules.rule import study_rule
from whence.rules.shape.axes import Source, source_of
from whence.rules.shape.scaled_columns import normalized_over_samples
from whence.rules.telling import place_of, shape_text, silent_finding, spot_at
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site
from whence.source.text import text_of
from whence.tape.operations import OVER_TIME
from whence.tape.tape import Call, Value

AXES = {"batch_norm": 1, "group_norm": 1, "layer_norm": -1, "rms_norm": -1}
"""The axis on which each norm expects its features."""
SIZES = {"normalized_shape": 0, "num_features": 0, "num_channels": 1}
OUTPUTS = {"out_channels": 1, "out_features": 1, "embedding_dim": 1, "hidden_size": 1}
READERS = OVER_TIME | {"linear"}
"""Layers that expect their features on the last axis."""
INPUTS = {"in_features": 0, "input_size": 0}


@study_rule("shape/norm-axis")
def norm_axis(study: Study) -> Finding | None:
    """The silent form: the features are on another axis of the same size."""
    for loss, call in study.loss_calls():
        axis = AXES.get(call.name)
        given = next(iter(call.operands), None)
        if (
            axis is None
            or given is None
            or len(given.shape) < 3
            or len(call.operands) < 2
            or not _is_for_one(call)
        ):
            continue
        axis %= len(given.shape)
        found = _made_elsewhere(study, call, axis) or _taken_elsewhere(study, call, axis)
        if found is None:
            continue
        elsewhere, what = found
        spot, swapped = (
            place_of(call, study),
            f"transpose({min(axis, elsewhere)}, {max(axis, elsewhere)})",
        )
        kind = {"batch_norm": "batch norm", "group_norm": "group norm", "rms_norm": "RMS norm"}.get(
            call.name, "layer norm"
        )
        return silent_finding(
            study,
            "shape/norm-axis",
            spot=spot,
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{kind} reads axis {axis} of {shape_text(given.shape)} as features; "
            f"they are on axis {elsewhere}",
            what=what,
            why="Batch norm and group norm expect features on axis 1, layer norm and RMS norm on "
            "the last axis. Both axes have the same size here, so nothing raises.",
            fix=f"Transpose before and after: norm(x.{swapped}).{swapped}; "
            + (
                "or use a norm that expects features on axis 1."
                if axis > 1
                else "or use LayerNorm."
            ),
            patch=_transposed(call.site, swapped),
        )
    return normalized_over_samples(study)


def _transposed(site: Site | None, swapped: str) -> str | None:
    node = site.node() if site is not None and not site.is_indirect else None
    if site is None or not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    inside = f"{in_parentheses(site.filename, node.args[0])}.{swapped}"
    return diff_of(
        replace_node(
            site.filename, node, f"{text_of(site.filename, node.func)}({inside}).{swapped}"
        ),
    )


def _is_for_one(call: Call) -> bool:
    """Whether the norm normalizes one axis and has weights for it."""
    if call.name not in ("layer_norm", "rms_norm"):
        return True
    shape = call.args[1] if len(call.args) > 1 else call.kwargs.get("normalized_shape")
    return isinstance(shape, tuple | list) and len(shape) == 1


def _made_elsewhere(study: Study, norm: Call, axis: int) -> tuple[int, str] | None:
    """An axis of the same size that a layer's output made, while the norm's came with the data."""
    given = norm.operands[0]
    rank = len(given.shape)
    others = _same_size_axes(given, axis)
    if not others or source_of(given, axis - rank)[0] is not Source.DATA:
        return None
    for each in others:
        source, maker, at = source_of(given, each - rank)
        # A program that moves a layer's outputs to another axis, as mixers do, means it.
        if source is Source.WEIGHT and maker is not None and at == each - rank:
            what = (
                f"{maker.name} has its outputs on axis {each}; axis {axis} comes with the data and "
                "has the same size"
            )
            return (each, what) if not _is_intended(study, norm, maker) else None
    return None


def _taken_elsewhere(study: Study, norm: Call, axis: int) -> tuple[int, str] | None:
    """The last axis, if a later layer reads features there under the norm's name for the size."""
    given, last = norm.operands[0], len(norm.operands[0].shape) - 1
    if last not in _same_size_axes(given, axis):
        return None
    reached = {id(each) for each in norm.outputs}
    for call in study.calls:
        if (
            call.number <= norm.number
            or call.inner
            or not any(id(each) in reached for each in call.operands[:1])
        ):
            continue
        if call.name in READERS:
            names = _names_of_size(study, norm, SIZES) & _names_of_size(study, call, INPUTS)
            if not names:
                return None
            what = (
                f"{call.name} reads its features from axis {last}, with the norm's size "
                f"{min(names)}; axis {axis} has the same size"
            )
            return last, what
        if not call.outputs or call.outputs[0].shape != given.shape or call.name in MOVES:
            return None
        reached |= {id(each) for each in call.outputs}
    return None


def _same_size_axes(given: Value, axis: int) -> list[int]:
    """Other axes of the same size, except the batch axis."""
    return [
        each
        for each in range(1, len(given.shape))
        if each != axis and given.shape[each] == given.shape[axis]
    ]


def _is_intended(study: Study, norm: Call, maker: Call) -> bool:
    """Whether the norm's size and the outputs have different names: `LayerNorm(window)`."""
    one, other = _names_of_size(study, norm, SIZES), _names_of_size(study, maker, OUTPUTS)
    return bool(one and other) and not one & other


def _names_of_size(study: Study, call: Call, places: dict[str, int]) -> set[str]:
    layer = study.layer_of(call)
    name = next((each for each in places if layer is not None and each in vars(layer)), None)
    return (
        argument_names(study.modules.built_at(layer), places[name], name)
        if layer is not None and name
        else set()
    )
