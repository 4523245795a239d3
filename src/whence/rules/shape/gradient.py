"""A gradient's shape differs from its parameter's.

What happened
    A tensor of another shape was assigned to .grad, passed to backward as the output's gradient, or
    returned by the backward of a custom Function.
Why it matters
    The optimizer subtracts the gradient element by element, so PyTorch rejects the assignment.
How it is detected
    The shapes of parameter and gradient are compared in the call that raised; the origin is the
    line that made the gradient. If backward raised, the program's custom Functions on the path to
    the loss are run again in a child process.
How to fix it
    Make the gradient in the parameter's shape. If it is transposed, swap the factors in the
    formula.
When it stays silent
    Gradients whose shape matches.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.properties import HasShape
from whence.lineage.trail import trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.custom_functions import (
    caller_of,
    is_librarys,
    parameter_names,
    returned_by_backward,
)
from whence.rules.operations import PRODUCTS
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.definitions import find_definition
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.spots import Spot
from whence.source.text import enclosing, text_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, CustomFunction, Value


@rule("shape/gradient")
def gradient(failed: FailedCall) -> Finding | None:
    if failed.name not in ("grad.__set__", "backward"):
        return None
    subject = failed.argument(0, "self")
    given = failed.argument(1, "gradient")
    if (
        not isinstance(subject, torch.Tensor)
        or not isinstance(given, torch.Tensor)
        or subject.shape == given.shape
    ):
        return _returned(failed) if failed.name == "backward" else None
    trail = trace(failed.value(given), HasShape(tuple(given.shape)), failed)
    turned = tuple(given.shape) == tuple(reversed(subject.shape))
    return failure_finding(
        failed,
        "shape/gradient",
        verdict=f"the parameter is {shape_text(subject.shape)}, "
        f"its gradient is {shape_text(given.shape)}"
        if failed.name == "grad.__set__"
        else f"backward of a {shape_text(subject.shape)} tensor received a gradient of "
        f"{shape_text(given.shape)}",
        trail=trail,
        why="A gradient has one value per element of its tensor"
        + (", and this gradient is transposed." if turned else "."),
        fix="Make the gradient in the shape of its tensor"
        + (": swap the factors, or transpose it, where it is computed." if turned else "."),
        operands=(
            Operand("gradient", describe(given)),
            Operand("parameter" if failed.name == "grad.__set__" else "tensor", describe(subject)),
        ),
        patch=_transpose_patch(failed, given, trail.op)
        if turned and failed.name == "grad.__set__"
        else None,
    )


def _transpose_patch(failed: FailedCall, given: torch.Tensor, maker: str | None) -> str | None:
    """Transpose the assigned product: `weight.grad = (a.T @ b).T`. Unproven for other formulas."""
    site = failed.site
    statement = site.statement() if site is not None else None
    if (
        site is None
        or given.dim() != 2
        or maker not in PRODUCTS
        or not isinstance(statement, ast.Assign)
    ):
        return None
    return diff_of(
        replace_node(
            site.filename, statement.value, f"{in_parentheses(site.filename, statement.value)}.T"
        )
    )


@dataclass(frozen=True, slots=True)
class Misfit:
    """The gradient for one input of a Function, whose shape differs from the input's."""

    number: int
    given: tuple[int, ...]
    wanted: tuple[int, ...]


def _returned(failed: FailedCall) -> Finding | None:
    for call in ancestors(*failed.call.operands):
        if not isinstance(call.func, CustomFunction) or is_librarys(call.func.kind):
            continue
        try:
            misfit = run_in_child(partial(_misfit, call, call.func.kind), need=Need.BACKWARD)
        except NotPossible:
            continue
        if misfit is not None:
            return _report_returned(failed, call, call.func, misfit)
    return None


def _misfit(call: Call, kind: Any) -> Misfit | None:
    """Run the backward on tensors of these shapes and return the first gradient that misfits."""
    leaves = [
        torch.ones(each.shape, dtype=each.dtype, requires_grad=each.dtype.is_floating_point)
        for each in call.operands
    ]
    result = caller_of(call)(leaves)
    gradients = kind.backward(result.grad_fn, torch.ones_like(result))
    for number, gradient in enumerate(gradients if isinstance(gradients, tuple) else (gradients,)):
        given = call.args[number] if number < len(call.args) else None
        if (
            not isinstance(given, Value)
            or not isinstance(gradient, torch.Tensor)
            or not given.requires_grad
        ):
            continue
        if not _sums_to(tuple(gradient.shape), tuple(given.shape)):
            return Misfit(number, tuple(gradient.shape), tuple(given.shape))
    return None


def _made(returned: ast.expr) -> ast.AST:
    """The expression that a returned name stands for."""
    scope = enclosing(returned, ast.FunctionDef)
    known = (
        find_definition(returned.id, scope, returned)
        if isinstance(returned, ast.Name) and scope
        else None
    )
    return known.value if known is not None and known.value is not None else returned


def _sums_to(gradient: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether autograd would sum the gradient to that shape."""
    missing = len(gradient) - len(wanted)
    pairs = zip(gradient[missing:], wanted, strict=True) if missing >= 0 else ()
    return missing >= 0 and all(size in (1, have) for have, size in pairs)


def _report_returned(
    failed: FailedCall, call: Call, func: CustomFunction, misfit: Misfit
) -> Finding | None:
    names = parameter_names(func.kind)
    name = names[misfit.number] if misfit.number < len(names) else f"input {misfit.number}"
    turned = misfit.given == tuple(reversed(misfit.wanted))
    found = returned_by_backward(func.kind)
    node: ast.AST | None = found[0] if found is not None else None
    patch = None
    if (
        isinstance(node, ast.Return)
        and isinstance(node.value, ast.Tuple)
        and misfit.number < len(node.value.elts)
    ):
        node = _made(node.value.elts[misfit.number])
        if turned and len(misfit.wanted) == 2 and found is not None:
            patch = diff_of(replace_node(found[1], node, f"({text_of(found[1], node)}).T"))
    return failure_finding(
        failed,
        "shape/gradient",
        verdict=f"{func.__name__}.backward returns {shape_text(misfit.given)} for {name}, "
        f"expected {shape_text(misfit.wanted)}",
        spot=Spot.of_node(found[1], node) if found is not None and node is not None else None,
        why="backward returns one gradient per input of forward, in the shape of that input"
        + ("; this gradient is transposed." if turned else "."),
        fix=f"Swap the factors of the gradient of {name}, or transpose it, where it is returned."
        if turned
        else f"Sum the gradient over the axes along which {name} was broadcast, so that it has the "
        f"shape of {name}.",
        patch=patch,
        chain=()
        if call.site is None
        else (Spot.of_site(call.site).hop(f"{func.__name__} is applied here"),),
        counterfactual="run alone on tensors of these shapes, backward returns "
        f"{shape_text(misfit.given)}",
    )
