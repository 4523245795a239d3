"""A Linear's in_features differs from the size of its input.

What happened
    The last axis of the input of a Linear layer (or F.linear, a product with a weight, a recurrent
    layer, a Keras layer) differs from the size of its weight.
Why it matters
    PyTorch's message prints two folded matrices and names neither the layer nor the axis.
How it is detected
    The shapes of input and weight are compared. The size is traced to the input's own line, to a
    layer's constructor, or to a reshape or flatten. Whence also tries which image size would fit.
How to fix it
    Add the missing flatten, or set in_features to the size that arrives.
When it stays silent
    Linear layers on inputs with more axes, as in transformers, if the last axis fits. A layer that
    succeeded until a batch of another size arrived is reported as shape/changed.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from math import prod
from typing import Any

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.ancestry import origin_call
from whence.lineage.constructors import argument_origin, layer_argument
from whence.lineage.properties import HasAxis
from whence.lineage.trail import Birth, Trail, trace
from whence.lineage.written import written_number
from whence.rules.operations import EXCHANGES, PRODUCTS, RESHAPES, STRICT
from whence.rules.refusals import refusing
from whence.rules.rule import rule
from whence.rules.shape.declared import declared_features
from whence.rules.shape.earlier import changed_leaf
from whence.rules.shape.layers import table
from whence.rules.shape.resolution import Fitting, fitting_resolution
from whence.rules.telling import describe, failure_finding, layer_text, shape_text
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.tape import Call
from whence.tape.trial import try_shapes


@rule("shape/linear-features")
def linear_features(failed: FailedCall) -> Finding | None:
    operands = _operands(failed)
    if operands is None:
        return declared_features(failed)
    given, weight, wanted = operands
    if given.dim() == 0 or given.shape[-1] == wanted:
        return None
    got = given.shape[-1]
    if changed_leaf(failed, failed.value(given)) is not None:
        # The layer succeeded before, so the batch has changed, not the layer.
        return None
    layer = failed.layer
    path = failed.modules.path_of(layer) if layer is not None else failed.name
    common: dict[str, Any] = {
        "operands": (
            Operand("input", describe(given)),
            Operand("weight", shape_text(weight.shape)),
        ),
        "table": table(failed),
    }
    verdict = f"{path} expects {wanted} features, got {got}"
    if (moved := _moved(failed, given, wanted)) is not None:
        return _report_moved(failed, moved, given, wanted, verdict, common)
    if given.dim() > 2 and wanted in _flattened_sizes(given) and not isinstance(layer, nn.RNNBase):
        return _missing_flatten(failed, given, wanted, verdict, common)
    trail = trace(failed.value(given), HasAxis(-1, got), failed)
    if prod(trail.parts[1:]) == wanted and trail.op in RESHAPES | {"flatten"}:
        return _flattened_too_much(failed, trail, verdict, common)
    spot, patch = _place(failed, trail, weight, got)
    needs = fitting_resolution(failed, given, wanted)
    name = layer_text(layer, path) if layer is not None else failed.name
    why = f"{name} expects a last axis of {wanted}; {_story(trail, got)}"
    fix = _fix(trail, wanted, got, _size_name(layer))
    if needs is not None:
        why += f" {needs.text}"
        built_for = _built_for(failed, needs) if spot is not None else None
        if built_for is not None:
            spot, patch = built_for, _number_patch(built_for, needs)
            fix = (
                f"Make the image sizes agree: the layer is built for images of {spot.code} px, "
                f"these have {needs.had} px."
            )
    return failure_finding(
        failed,
        "shape/linear-features",
        verdict=verdict,
        trail=trail,
        spot=spot,
        why=why,
        fix=fix,
        patch=patch,
        counterfactual=_counterfactual(failed, given, wanted),
        **common,
    )


def _operands(failed: FailedCall) -> tuple[torch.Tensor, torch.Tensor, int] | None:
    """The input, the weight, and the input size that the weight expects."""
    if failed.name == "linear":
        given, weight = failed.argument(0, "input"), failed.argument(1, "weight")
        if (
            isinstance(given, torch.Tensor)
            and isinstance(weight, torch.Tensor)
            and weight.dim() > 0
        ):
            return given, weight, weight.shape[-1]
    layer = failed.layer
    names = refusing(failed, nn.RNNBase, "check_input")
    given = names.get("input") if names is not None else failed.argument(0, "input")
    if (names is not None and isinstance(layer, nn.RNNBase)) or isinstance(layer, nn.RNNCellBase):
        weight = next(nn.Module.parameters(layer), None)
        if (
            isinstance(given, torch.Tensor)
            and isinstance(weight, torch.Tensor)
            and given.dtype == weight.dtype
        ):
            return given, weight, int(layer.input_size)
    if failed.name in PRODUCTS - {"einsum", "bilinear", "dot", "baddbmm"}:
        tensors = list(failed.tensors())[-2:]
        if (
            len(tensors) == 2
            and _is_trained(tensors[1])
            and tensors[1].dim() == 2
            and not _is_trained(tensors[0])
        ):
            return tensors[0], tensors[1], tensors[1].shape[0]
    return None


def _is_trained(tensor: torch.Tensor) -> bool:
    return isinstance(tensor, nn.Parameter) or (tensor.requires_grad and tensor.is_leaf)


def _flattened_sizes(given: torch.Tensor) -> set[int]:
    return {prod(given.shape[start:]) for start in range(1, given.dim() - 1)}


def _moved(failed: FailedCall, given: torch.Tensor, wanted: int) -> Call | None:
    """The transpose that moved the features from the last axis to another."""
    made = origin_call(failed.value(given))
    if made is None or made.name not in EXCHANGES or made.site is None or not made.operands:
        return None
    return (
        made if wanted in given.shape[:-1] and made.operands[0].shape.count(wanted) == 1 else None
    )


def _report_moved(
    failed: FailedCall,
    moved: Call,
    given: torch.Tensor,
    wanted: int,
    verdict: str,
    common: dict[str, Any],
) -> Finding | None:
    assert moved.site is not None
    return failure_finding(
        failed,
        "shape/linear-features",
        verdict=f"{verdict}: the {wanted} features are at axis {given.shape.index(wanted)}",
        spot=Spot.of_site(moved.site),
        why=f"{moved.name} turns {shape_text(moved.operands[0].shape)} into "
        f"{shape_text(given.shape)}; the layer reads the last axis.",
        fix=f"Keep the features last in {moved.name}, or move them back before the layer.",
        **common,
    )


def _missing_flatten(
    failed: FailedCall, given: torch.Tensor, wanted: int, verdict: str, common: dict[str, Any]
) -> Finding | None:
    start = next(each for each in range(1, given.dim()) if prod(given.shape[each:]) == wanted)
    spot = _call_in_forward(failed)
    return failure_finding(
        failed,
        "shape/linear-features",
        verdict=f"{verdict}: the input {shape_text(given.shape)} was not flattened",
        spot=spot,
        why=f"{' * '.join(map(str, given.shape[start:]))} = {wanted}: the input has the expected "
        f"number of values, spread over {given.dim() - start} axes instead of one.",
        fix=f"Flatten from axis {start} before the layer: x.flatten({start}), or nn.Flatten() in "
        "an nn.Sequential.",
        patch=flatten_patch(spot, start),
        counterfactual=_counterfactual(failed, given, wanted, flatten_from=start),
        **common,
    )


def _flattened_too_much(
    failed: FailedCall, trail: Trail, verdict: str, common: dict[str, Any]
) -> Finding | None:
    node = trail.spot.node() if trail.spot is not None else None
    patch = None
    if (
        trail.spot is not None
        and isinstance(node, ast.Call)
        and not node.keywords
        and "flatten" in ast.unparse(node.func)
    ):
        is_function = (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "torch"
        )
        given = f"{ast.unparse(node.args[0])}, " if is_function and node.args else ""
        patch = diff_of(
            replace_node(trail.spot.filename, node, f"{ast.unparse(node.func)}({given}1)")
        )
    return failure_finding(
        failed,
        "shape/linear-features",
        verdict=f"{verdict}: the batch axis was flattened too",
        trail=trail,
        why=f"{'*'.join(map(str, trail.parts))} were merged into one axis. The first is the batch; "
        "without it the size fits.",
        fix="Flatten from axis 1: x.flatten(1).",
        patch=patch,
        **common,
    )


def _call_in_forward(failed: FailedCall) -> Spot | None:
    """Where the program's forward calls the layer, or its constructor inside nn.Sequential."""
    layer, scope = failed.layer, failed.scope
    parent = scope.parent.module if scope is not None and scope.parent is not None else None
    if layer is not None and isinstance(parent, nn.Sequential):
        stack = failed.modules.built_at(layer)
        if stack:
            return Spot.of_site(stack[0])
    return Spot.of_site(failed.site) if failed.site is not None else None


def flatten_patch(spot: Spot | None, start: int) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    if _is_constructor(node):
        return diff_of(
            replace_node(
                spot.filename,
                node,
                f"nn.Flatten({'' if start == 1 else start}), {ast.unparse(node)}",
            )
        )
    if len(node.args) == 1 and isinstance(
        node.args[0], ast.Name | ast.Attribute | ast.Call | ast.Subscript
    ):
        return diff_of(
            replace_node(
                spot.filename, node.args[0], f"{ast.unparse(node.args[0])}.flatten({start})"
            )
        )
    return None


def _is_constructor(node: ast.Call) -> bool:
    return (
        isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "nn"
    )


def _place(
    failed: FailedCall, trail: Trail, weight: torch.Tensor, got: int
) -> tuple[Spot | None, str | None]:
    """The layer's constructor if the model made the size, None if the data brought it."""
    weighted = trail.birth is Birth.CALL and trail.op in STRICT
    from_data = trail.birth is Birth.CALL and trail.phase in ("program", "data") and not weighted
    if trail.birth in (Birth.SOURCE, Birth.SAMPLE, Birth.NUMBER) or from_data:
        return None, None
    if _worked_before(failed):
        return None, None
    layer = failed.layer
    stack: tuple[Site, ...] = failed.modules.built_at(layer) if layer is not None else ()
    if not stack:
        return _creation_of(failed, weight), None
    constructor = Spot.of_site(stack[0])
    spot = argument_origin(stack, 0, _size_name(layer))
    return spot, _features_patch(
        constructor, got, _size_name(layer)
    ) if spot == constructor else None


def _built_for(failed: FailedCall, needs: Fitting) -> Spot | None:
    """The literal image size from which the layer's in_features is computed."""
    stack = failed.modules.built_at(failed.layer) if failed.layer is not None else ()
    argument = layer_argument(stack, 0, "in_features")
    # A literal in the layer's own call is in_features itself, not an image size.
    if argument is None or isinstance(argument, ast.Constant):
        return None
    found = (written_number(stack, argument, size) for size in needs.needed)
    return next((spot for spot in found if spot is not None), None)


def _number_patch(spot: Spot, needs: Fitting) -> str | None:
    node = spot.node()
    return (
        diff_of(replace_node(spot.filename, node, str(needs.had)))
        if isinstance(node, ast.Constant)
        else None
    )


def _worked_before(failed: FailedCall) -> bool:
    return failed.tape.earlier_at(failed.call) is not None


def _creation_of(failed: FailedCall, weight: torch.Tensor) -> Spot | None:
    return trace(failed.value(weight), HasAxis(-1, weight.shape[-1]), failed).spot


def _size_name(layer: nn.Module | None) -> str:
    """The layer's own name for its number of inputs."""
    return "input_size" if isinstance(layer, nn.RNNBase | nn.RNNCellBase) else "in_features"


def _features_patch(spot: Spot, got: int, name: str) -> str | None:
    node = spot.node()
    if not isinstance(node, ast.Call):
        return None
    named = next((keyword.value for keyword in node.keywords if keyword.arg == name), None)
    target = named or (node.args[0] if node.args else None)
    return diff_of(replace_node(spot.filename, target, str(got))) if target is not None else None


def _story(trail: Trail, got: int) -> str:
    if trail.spot is None:
        return f"{got} arrived, of unknown origin."
    where = f"{trail.spot.file}:{trail.spot.line}"
    if trail.parts:
        return f"{got} = {'*'.join(map(str, trail.parts))} is formed at {where}."
    if trail.birth is Birth.LAYER:
        return f"{got} is the output size of the layer built at {where}."
    return f"{got} comes from {where}."


def _fix(trail: Trail, wanted: int, got: int, name: str) -> str:
    if trail.birth is Birth.LAYER or trail.parts:
        return f"Set {name}={got}, or change the code before the layer to output {wanted} features."
    return f"Create the data with {wanted} features, or build the layer for {got}."


def _counterfactual(
    failed: FailedCall, given: torch.Tensor, wanted: int, flatten_from: int | None = None
) -> str | None:
    value = failed.value(given)
    keep = given.shape[:-1] if flatten_from is None else given.shape[:flatten_from]
    floats = {each: torch.float32 for each in failed.call.operands if each.dtype.is_floating_point}
    outcome = try_shapes(failed.call, {value: (*keep, wanted)}, floats)
    return (
        f"the same call with an input of {shape_text((*keep, wanted))} runs"
        if outcome.ran
        else None
    )
