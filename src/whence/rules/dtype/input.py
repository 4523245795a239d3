"""Data of the wrong dtype reaches the weights of a layer."""

from __future__ import annotations

import ast
from dataclasses import replace

import torch

from whence.finding import Finding, Operand
from whence.lineage.properties import HALVES
from whence.lineage.trail import Trail, border
from whence.rules.dtype.operands import (
    cast_patch,
    dtype_trail,
    misfit,
    origin_of_type,
    runs_with_cast,
)
from whence.rules.operations import weight_of
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, failure_finding, layer_text
from whence.source.spots import Spot
from whence.source.text import parent_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value

DEEPEST = 20


def _report_input(
    failed: FailedCall,
    id: str,
    tensor: torch.Tensor,
    wanted: torch.dtype,
    why: str,
    trail: Trail | None = None,
) -> Finding | None:
    trail = trail or dtype_trail(failed, tensor)
    had, cured = dtype_name(tensor.dtype), runs_with_cast(failed, tensor, wanted)
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    target = layer_text(layer, path) if layer is not None else f"{failed.name}()"
    return failure_finding(
        failed,
        id,
        verdict=f"{path} has {dtype_name(wanted)} weights, got {had} input"
        if weight_of(failed) is not None
        else f"{path} got both {had} and {dtype_name(wanted)} operands",
        trail=trail,
        why=f"{why} {target} has {dtype_name(wanted)} {_others(failed)}, and PyTorch converts "
        f"neither side. {origin_of_type(trail, tensor)}.",
        fix=f"Convert the data to {dtype_name(wanted)} at the origin; one cast there serves every "
        "use.",
        patch=cast_patch(trail, wanted),
        operands=(Operand("input", describe(tensor)), Operand(_others(failed), dtype_name(wanted))),
        counterfactual=f"the same call with the input cast to {dtype_name(wanted)} runs"
        if cured
        else None,
    )


def _others(failed: FailedCall) -> str:
    return "weights" if weight_of(failed) is not None else "operands"


@rule("dtype/float64-input")
def float64_input(failed: FailedCall) -> Finding | None:
    """Float64 data reached float32 weights.

    What happened
        A layer with float32 weights received float64 data. Linear, convolution, recurrent and
        normalization layers each raise a different message.
    Why it matters
        NumPy, pandas and Python floats are float64 by default; PyTorch weights are float32. The
        error names the layer, but the cause is where the data were created.
    How it is detected
        The dtypes of the operands of the call that raised. The float64 operand is traced through
        from_numpy, the loader and the dataset to the expression that created it.
    How to fix it
        Convert at the source: dtype=np.float32, .astype("float32"), torch.tensor(...,
        dtype=torch.float32).
    When it stays silent
        If the model is float64 too: the weights decide which dtype is right.
    Cost
        None until a call raises.
    """
    found = misfit(failed)
    if found is None or found[0].dtype != torch.float64:
        return None
    return _report_input(
        failed,
        "dtype/float64-input",
        *found,
        "NumPy, pandas and Python floats are float64 by default.",
    )


@rule("dtype/integer-input")
def integer_input(failed: FailedCall) -> Finding | None:
    """Integer data reached a float model.

    What happened
        A layer with floating-point weights received integers: pixel bytes, counts, token ids.
    Why it matters
        PyTorch does not convert. If the integers are ids, a cast is the wrong fix: they belong in
        an Embedding.
    How it is detected
        The dtypes of the operands of the call that raised. The integers are traced to their origin.
    How to fix it
        Convert at the source with .float() (and scale bytes, for example / 255), or look ids up in
        an Embedding.
    When it stays silent
        Integer operands that are indices or masks.
    Cost
        None until a call raises.
    """
    found = misfit(failed)
    if found is None or found[0].dtype.is_floating_point or found[0].dtype.is_complex:
        return None
    trail = dtype_trail(failed, found[0])
    earlier = failed.tape.earlier_like(failed.call)
    if earlier is not None and earlier.operands[0].dtype.is_floating_point:
        # It succeeded with floats, so the stored integers are right and a conversion is missing.
        trail = replace(trail, spot=border(trail) or trail.spot)
    return _report_input(
        failed,
        "dtype/integer-input",
        *found,
        "A weighted sum needs floating-point inputs.",
        trail,
    )


@rule("dtype/precision-boundary")
def precision_boundary(failed: FailedCall) -> Finding | None:
    """A half-precision tensor left its autocast region.

    What happened
        A bfloat16 or float16 tensor, created under autocast or by a half-precision module, met
        float32 weights outside.
    Why it matters
        Autocast converts only inside its region.
    How it is detected
        The dtypes of the operands of the call that raised, and the call under autocast that
        returned the half-precision result.
    How to fix it
        Move the consumer into the region too, or convert with .float() at its end.
    When it stays silent
        If model and data have the same half-precision dtype.
    Cost
        None until a call raises.
    """
    found = misfit(failed) or _without_weight(failed)
    if found is None or found[0].dtype not in HALVES:
        return None
    trail = dtype_trail(failed, found[0])
    made = _made_under_autocast(failed.value(found[0]))
    inside = _last_line_inside(made) if made is not None and made.autocast else None
    why = "A half-precision result of autocast keeps its dtype after the region ends."
    return _report_input(
        failed,
        "dtype/precision-boundary",
        *found,
        why,
        replace(trail, spot=inside) if inside is not None else trail,
    )


def _without_weight(failed: FailedCall) -> tuple[torch.Tensor, torch.dtype] | None:
    """The operand from an ended autocast region, and the others' dtype, if no weight takes part."""
    tensors = list(failed.tensors())
    wider = next(
        (each.dtype for each in tensors if each.is_floating_point() and each.dtype not in HALVES),
        None,
    )
    if wider is None or failed.call.autocast:
        return None
    for tensor in tensors:
        if tensor.dtype in HALVES and _made_under_autocast(failed.value(tensor)) is not None:
            return (tensor, wider) if runs_with_cast(failed, tensor, wider) else None
    return None


def _made_under_autocast(value: Value | None) -> Call | None:
    """The call under autocast that gave a value its dtype."""
    dtype = value.dtype if value is not None else None
    for _ in range(DEEPEST):
        call = value.call if value is not None else None
        if call is None or call.autocast:
            return call
        value = next((each for each in call.operands if each.dtype is dtype), None)
    return None


def _last_line_inside(call: Call) -> Spot | None:
    """The line directly inside the autocast block under which a call was made."""
    for site in call.stack:
        child: ast.AST | None = site.node() or site.statement()
        while child is not None:
            parent = parent_of(child)
            if (
                isinstance(parent, ast.With)
                and child in parent.body
                and any("autocast" in ast.unparse(each.context_expr) for each in parent.items)
            ):
                return Spot.of_site(site)
            child = parent
    return None
