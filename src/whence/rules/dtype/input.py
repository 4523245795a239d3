"""Data of the wrong type reaches the weights of a layer."""

from __future__ import annotations

import ast
from dataclasses import replace

import torch

from whence.finding import Finding, Operand
from whence.lineage.properties import HALVES
from whence.lineage.trail import Trail, border
from whence.rules.dtype.operands import birth, cast_patch, cured_by_cast, misfit, origin_of_type
from whence.rules.operations import weight_of
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, layer_text, tell
from whence.source.spots import Spot
from whence.source.text import parent_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value

DEEPEST = 20


def _told(
    failed: FailedCall,
    id: str,
    tensor: torch.Tensor,
    wanted: torch.dtype,
    why: str,
    trail: Trail | None = None,
) -> Finding | None:
    trail = trail or birth(failed, tensor)
    had, cured = dtype_name(tensor.dtype), cured_by_cast(failed, tensor, wanted)
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    target = layer_text(layer, path) if layer is not None else f"{failed.name}()"
    return tell(
        failed,
        id,
        verdict=f"{had} data reached the {dtype_name(wanted)} {_others(failed)} of {path}",
        trail=trail,
        why=f"{why} {target} has {dtype_name(wanted)} {_others(failed)} and torch converts neither side by itself; "
        f"{origin_of_type(trail, tensor)}.",
        fix=f"Make it {dtype_name(wanted)} where it is made, not in front of the layer: one cast at the origin serves all users.",
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
        A layer with float32 weights was given float64 data. Linear, convolution, recurrent and normalisation layers each
        say it in other words.
    Why it matters
        numpy, pandas and Python floats are float64 by default; torch's weights are float32. The error names the layer,
        and the cause is where the data were made.
    How it is detected
        The types of the operands of the call that raised; then the float64 is followed back over the tape, through
        from_numpy, the loader and the dataset, to the expression that made it.
    How to fix it
        Convert at the source: dtype=np.float32, .astype("float32"), torch.tensor(..., dtype=torch.float32).
    When it stays silent
        If the model is float64 too: the weights decide which type is right.
    Cost
        None until a call raises.
    """
    found = misfit(failed)
    if found is None or found[0].dtype != torch.float64:
        return None
    return _told(
        failed,
        "dtype/float64-input",
        *found,
        "numpy, pandas and Python floats are float64 unless told otherwise.",
    )


@rule("dtype/integer-input")
def integer_input(failed: FailedCall) -> Finding | None:
    """Integer data reached a float model.

    What happened
        A layer with floating point weights was given integers: pixel bytes, counts, token ids.
    Why it matters
        Torch does not convert. If the integers are ids, a cast is the wrong cure: they belong into an Embedding.
    How it is detected
        The types of the operands of the call that raised; the integer type is followed back to where it was made.
    How to fix it
        Convert at the source with .float() (bytes also want scaling, for example / 255), or look ids up in an Embedding.
    When it stays silent
        Integer operands that are indices or masks.
    Cost
        None until a call raises.
    """
    found = misfit(failed)
    if found is None or found[0].dtype.is_floating_point or found[0].dtype.is_complex:
        return None
    trail = birth(failed, found[0])
    earlier = failed.tape.earlier_like(failed.call)
    if earlier is not None and earlier.operands[0].dtype.is_floating_point:
        # It went well with floats: these integers are right as they are stored, and were not converted where they enter.
        trail = replace(trail, spot=border(trail) or trail.spot)
    return _told(
        failed,
        "dtype/integer-input",
        *found,
        "Integers have no place in a weighted sum until they are floats.",
        trail,
    )


@rule("dtype/precision-boundary")
def precision_boundary(failed: FailedCall) -> Finding | None:
    """A half-precision tensor left its autocast region.

    What happened
        A bfloat16 or float16 tensor, made under autocast or by a half-precision module, met float32 weights outside.
    Why it matters
        Inside the region autocast converts for you; outside nobody does.
    How it is detected
        The types of the operands of the call that raised, and the call under autocast that gave the half-precision result.
    How to fix it
        Put the consumer into the region as well, or leave it with .float().
    When it stays silent
        If model and data have the same half-precision type.
    Cost
        None until a call raises.
    """
    found = misfit(failed) or _left_alone(failed)
    if found is None or found[0].dtype not in HALVES:
        return None
    trail = birth(failed, found[0])
    made = _made_under_autocast(failed.value(found[0]))
    inside = _last_line_inside(made) if made is not None and made.autocast else None
    why = "What autocast computes in half precision stays so when the region ends."
    return _told(
        failed,
        "dtype/precision-boundary",
        *found,
        why,
        replace(trail, spot=inside) if inside is not None else trail,
    )


def _left_alone(failed: FailedCall) -> tuple[torch.Tensor, torch.dtype] | None:
    """The same where no weight takes part: an operand from a region that has ended, and the type of the others."""
    tensors = list(failed.tensors())
    wider = next(
        (each.dtype for each in tensors if each.is_floating_point() and each.dtype not in HALVES),
        None,
    )
    if wider is None or failed.call.autocast:
        return None
    for tensor in tensors:
        if tensor.dtype in HALVES and _made_under_autocast(failed.value(tensor)) is not None:
            return (tensor, wider) if cured_by_cast(failed, tensor, wider) else None
    return None


def _made_under_autocast(value: Value | None) -> Call | None:
    """The call within a region that gave a value its type."""
    dtype = value.dtype if value is not None else None
    for _ in range(DEEPEST):
        call = value.call if value is not None else None
        if call is None or call.autocast:
            return call
        value = next((each for each in call.operands if each.dtype is dtype), None)
    return None


def _last_line_inside(call: Call) -> Spot | None:
    """The line of the autocast block itself under which a call was made."""
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
