"""A library layer declares its number of features and rejects others: Keras's `input_spec`.

Reported by shape/linear-features, which documents it.
"""

from __future__ import annotations

import ast
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.grounds import Ground, ground_of
from whence.lineage.looking import Unknown, look
from whence.rules.telling import failure_finding, shape_text
from whence.source.definitions import find_definition
from whence.source.sites import frames_in, is_foreign, variables
from whence.source.spots import Spot
from whence.tape.failed import FailedCall


def declared_features(failed: FailedCall) -> Finding | None:
    frames = frames_in(failed.exception.__traceback__)
    if (
        not frames
        or not isinstance(failed.exception, ValueError)
        or not is_foreign(frames[0].f_code.co_filename)
    ):
        return None
    names = variables(frames[0])
    given = next((each for each in names.values() if isinstance(each, torch.Tensor)), None)
    wanted = next(
        (
            axes[-1]
            for each in names.values()
            if isinstance(axes := getattr(each, "axes", None), dict) and -1 in axes
        ),
        None,
    )
    if (
        given is None
        or given.dim() == 0
        or not isinstance(wanted, int)
        or given.shape[-1] == wanted
    ):
        return None
    layer = next(
        (each for name, each in names.items() if name.endswith("name") and isinstance(each, str)),
        "a layer",
    )
    got = given.shape[-1]
    return failure_finding(
        failed,
        "shape/linear-features",
        verdict=f"{layer} expects {wanted} features, got {got}",
        spot=_origin(failed, given),
        why=f"{layer} was built for {wanted} features and rejects an input with {got}.",
        fix=f"Pass {wanted} features to {layer}, or build it for {got}.",
        operands=(Operand("input", shape_text(given.shape)),),
    )


def _origin(failed: FailedCall, given: torch.Tensor) -> Spot | None:
    """Where the argument with this size was created; a library may pass on only a part of it."""
    site = failed.site
    node = site.node() if site is not None else None
    ground = ground_of(failed.call.stack, failed.frames)
    if site is None or not isinstance(node, ast.Call) or ground is None:
        return None
    found = next((each for each in node.args if _last_size(each, ground) == given.shape[-1]), None)
    if found is None:
        return None
    definition = (
        find_definition(found.id, ground.scope, found) if isinstance(found, ast.Name) else None
    )
    made = definition.value if definition is not None else None
    return Spot.of_node(site.filename, made if made is not None else found)


def _last_size(node: ast.expr, ground: Ground) -> int | None:
    try:
        shape: Any = (
            getattr(look(node, ground.frame), "shape", None) if ground.frame is not None else None
        )
        return int(shape[-1]) if shape is not None and len(shape) else None
    except (Unknown, TypeError, ValueError):
        return None
