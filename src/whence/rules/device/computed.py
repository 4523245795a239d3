"""A tensor that an optimizer rejects because it is the result of a computation."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding, Operand
from whence.lineage.looking import names_of
from whence.lineage.trail import where_built
from whence.rules.refusals import refusing
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.definitions import find_definition
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site, variables
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, text_of, tree_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value

LONGEST_WALK = 64


def refused_by_optimizer(failed: FailedCall) -> Finding | None:
    names = refusing(failed, Optimizer, "add_param_group")
    group = names.get("param_group") if names is not None else None
    tensor = next(
        (each for each in _weights(group) if not (each.is_leaf or each.retains_grad)), None
    )
    if tensor is None or (names is not None and names["self"].defaults.get("differentiable")):
        return None
    made = _operation_on_leaf(failed.value(tensor))
    spot = (
        Spot.of_site(made.site)
        if made is not None and made.site is not None
        else _where_kept(tensor, failed)
    )
    leaf = _leaf_of(tensor)
    owner = failed.modules.name_of(leaf) if leaf is not None else ""
    name = _name_of(tensor, failed)
    how = f"`{made.name.strip('_')}`" if made is not None else "an operation"
    source = (
        owner
        or f"a {'parameter' if isinstance(leaf, nn.Parameter) else 'tensor'} {_shape(leaf)}"
        "that no module owns"
    )
    return failure_finding(
        failed,
        "device/parameter-copy",
        verdict=f"{name or 'the tensor'} is not a leaf tensor: it is computed from {source}",
        spot=spot,
        why=f"The result of {how} is not a leaf tensor: it is computed once, and its gradient "
        "flows to the tensors it was computed from.",
        fix=f"Pass {owner} itself to the optimizer, and compute from it in forward."
        if owner
        else "Compute first, then wrap: nn.Parameter(torch.randn(...) * 0.1), or "
        "(...).requires_grad_() last.",
        patch=wrap_last_patch(spot) if not owner else None,
        operands=(Operand(name or "given", describe(tensor)),),
    )


def _weights(group: Any) -> list[torch.Tensor]:
    given = group.get("params") if isinstance(group, dict) else None
    return (
        [each for each in given if isinstance(each, torch.Tensor)]
        if isinstance(given, list)
        else []
    )


def _operation_on_leaf(value: Value) -> Call | None:
    """The call that computed a result from a leaf."""
    for _ in range(LONGEST_WALK):
        call = value.call
        before = (
            next((each for each in call.operands if each.requires_grad), None)
            if call is not None
            else None
        )
        if call is None or before is None:
            return None
        tensor = before.tensor
        if before.call is None or (tensor is not None and tensor.is_leaf):
            return call
        value = before
    return None


def _leaf_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """A leaf that the result was computed from."""
    pending: list[Any] = [tensor.grad_fn]
    for _ in range(LONGEST_WALK):
        node = pending.pop() if pending else None
        if node is None:
            return None
        leaf = getattr(node, "variable", None)
        if isinstance(leaf, torch.Tensor):
            return leaf
        pending += [below for below, _ in getattr(node, "next_functions", ()) if below is not None]
    return None


def _shape(leaf: torch.Tensor | None) -> str:
    return f"{shape_text(leaf.shape)} " if leaf is not None else ""


def _name_of(tensor: torch.Tensor, failed: FailedCall) -> str:
    held = failed.modules.holder_of(tensor)
    if held is not None:
        return f"{failed.modules.path_of(held[0])}.{held[1]}"
    return next((name for name, _ in names_of(tensor, failed.frames)), "")


def _where_kept(tensor: torch.Tensor, failed: FailedCall) -> Spot | None:
    """Where the tensor's name is assigned, if no call was recorded."""
    held = failed.modules.holder_of(tensor)
    if held is not None:
        return where_built(*held, failed)
    for name, frame in names_of(tensor, failed.frames):
        site = Site.of(frame)
        scope = function_node(site) if name in variables(frame) else tree_of(site.filename)
        found = find_definition(name, scope, None) if scope is not None else None
        if found is not None and found.value is not None:
            return Spot.of_node(site.filename, found.value)
    return None


def wrap_last_patch(spot: Spot | None) -> str | None:
    """Change `nn.Parameter(a) * b` to `nn.Parameter(a * b)`, and likewise for requires_grad."""
    node = spot.node() if spot is not None else None
    made = _made_in(node) if node is not None else None
    if spot is None or node is None or made is None:
        return None
    filename = spot.filename
    whole, before = text_of(filename, node), text_of(filename, made)
    if last_name(made.func) == "Parameter":
        argument = in_parentheses(filename, made.args[0])
        after = f"{text_of(filename, made.func)}({whole.replace(before, argument, 1)})"
    else:
        given = [*made.args, *(each for each in made.keywords if each.arg != "requires_grad")]
        arguments = ", ".join(text_of(filename, each) for each in given)
        plain = f"{text_of(filename, made.func)}({arguments})"
        after = f"({whole.replace(before, plain, 1)}).requires_grad_()"
    return diff_of(replace_node(filename, node, after))


def _made_in(node: ast.AST) -> ast.Call | None:
    """The call that creates the leaf which an expression computes with."""
    parts: tuple[ast.AST, ...] = ()
    if isinstance(node, ast.BinOp):
        parts = node.left, node.right
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        parts = (node.func.value,)
    for part in parts:
        if not isinstance(part, ast.Call):
            continue
        if last_name(part.func) == "Parameter" and len(part.args) == 1 and not part.keywords:
            return part
        if any(
            each.arg == "requires_grad" and ast.unparse(each.value) == "True"
            for each in part.keywords
        ):
            return part
    return None
