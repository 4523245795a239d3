"""A tuple, None or missing key reached an operation that needs a tensor.

What happened
    A layer or function received the result of another one, and that is not a tensor: the
    (output, state) of an LSTM, the None of a forward without return, a dict. Or a tensor's method
    that was not called, or numbers that never became a tensor: a NumPy array, a list, a float. Or a
    dict does not have a key.
Why it matters
    The message is about the consumer; the mistake is where the result was not unpacked or returned.
How it is detected
    The argument's expression is traced to the call that returned it. For numbers: the same call
    raises on meta tensors as it did, and no longer does with a tensor.
How to fix it
    Unpack the result (out, _ = lstm(x)), add the missing return, or convert the numbers to a tensor
    (torch.as_tensor).
When it stays silent
    Errors that have nothing to do with tensors.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.grounds import ground_of
from whence.lineage.results import Result, result_of
from whence.rules.rule import rule
from whence.rules.shape.missing_key import missing_key
from whence.rules.shape.uncalled import uncalled
from whence.rules.shape.untensored import untensored
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.definitions import class_of_method
from whence.source.edits import diff_of, insert_after, insert_before, replace_node
from whence.source.spots import Spot
from whence.source.text import function_node, span_of, statement_of
from whence.tape.failed import FailedCall
from whence.tape.tape import flatten


@rule("shape/wrong-container")
def wrong_container(failed: FailedCall) -> Finding | None:
    if (
        not isinstance(failed.exception, TypeError | AttributeError | KeyError | IndexError)
        or failed.site is None
    ):
        return None
    if (special := uncalled(failed) or missing_key(failed)) is not None:
        return special
    for thing in _candidates(failed):
        found = _source(failed, thing)
        if found is None:
            continue
        return failure_finding(
            failed,
            "shape/wrong-container",
            verdict=_verdict(failed, thing, found),
            spot=found.spot,
            why=_why(thing, found),
            fix=_fix(thing, found),
            patch=_patch(thing, found) or _first_element_patch(failed, thing, found),
            operands=(Operand("given", describe(thing)),),
        )
    return untensored(failed)


def _candidates(failed: FailedCall) -> list[Any]:
    """Arguments that are not tensors, but hold some or are None."""
    given = [*failed.args, *failed.kwargs.values()]
    return [
        each
        for each in given[:3]
        if each is None
        or (
            isinstance(each, tuple | dict)
            and any(isinstance(leaf, torch.Tensor) for leaf in flatten(each))
        )
    ]


def _source(failed: FailedCall, thing: Any) -> Result | None:
    before = _layer_before(failed)
    if before is not None and thing is not None:
        stack = failed.modules.built_at(before)
        return Result(type(before).__name__, Spot.of_site(stack[0]), None) if stack else None
    ground = ground_of(failed.call.stack, failed.frames)
    node = failed.site.node() if failed.site is not None else None
    if ground is None or node is None:
        return None
    if isinstance(node, ast.BinOp) and len(failed.args) == 2:
        # Only the operand that is not a tensor.
        node = ast.Expr(node.left if thing is failed.args[0] else node.right)
    found = result_of(node, thing, ground, failed.frames, failed.call.stack)
    handed = _built_elsewhere(failed, found.module) if found is not None else None
    if found is None or handed is None:
        return found
    return Result(
        f"{type(found.module).__name__} ({found.giver})", handed, None, module=found.module
    )


def _built_elsewhere(failed: FailedCall, layer: nn.Module | None) -> Spot | None:
    """Where a PyTorch layer was built, if another class passed it to the class that calls it."""
    stack = failed.modules.built_at(layer) if layer is not None else ()
    here = function_node(failed.site) if failed.site is not None else None
    there = function_node(stack[0]) if stack else None
    if here is None or there is None or not type(layer).__module__.startswith("torch.nn"):
        return None
    return None if class_of_method(here) is class_of_method(there) else Spot.of_site(stack[0])


def _layer_before(failed: FailedCall) -> nn.Module | None:
    """The previous layer, if both are in an nn.Sequential with no program line between them."""
    scope = failed.scope
    parent = scope.parent.module if scope is not None and scope.parent is not None else None
    if scope is None or not isinstance(parent, nn.Sequential):
        return None
    if not type(scope.module).__module__.startswith("torch.nn"):
        return None
    layers = list(parent)
    at = next((number for number, each in enumerate(layers) if each is scope.module), 0)
    return layers[at - 1] if at else None


def _verdict(failed: FailedCall, thing: Any, found: Result) -> str:
    kind = "None" if thing is None else f"a {type(thing).__name__}"
    name = failed.name if failed.name != "getattr" else f".{failed.args[1]}"
    return f"{name} got {kind} from {found.giver}" + (
        ", which returns nothing" if found.returns_nothing else " instead of a tensor"
    )


def _fix(thing: Any, found: Result) -> str:
    if found.returns_nothing:
        return f"Add `return` with the result at the end of {found.giver}."
    if isinstance(thing, dict):
        return "Take the tensor out of the dict by its key."
    if found.module is not None and found.statement is None:
        return (
            "Unpack the result, out, _ = ..., or wrap the layer in a module that returns only its "
            "output if other code calls it."
        )
    return "Unpack the result: out, _ = ... keeps the tensor."


def _why(thing: Any, found: Result) -> str:
    if found.returns_nothing:
        return (
            f"{found.giver} computes a result and ends without a return, so its caller gets None."
        )
    shapes = ", ".join(
        shape_text(each.shape) for each in flatten(thing) if isinstance(each, torch.Tensor)
    )
    return (
        f"{found.giver} returns a {type(thing).__name__} with tensors of {shapes}, and all of it "
        "was passed on."
    )


def _first_element_patch(failed: FailedCall, thing: Any, found: Result) -> str | None:
    """Insert `[0]` after the call, if it is in the expression that failed."""
    node, failing = found.spot.node(), failed.site.statement() if failed.site is not None else None
    here = isinstance(node, ast.Call) and failing is not None and statement_of(node) is failing
    if (
        node is None
        or not here
        or not isinstance(thing, tuple)
        or not isinstance(thing[0], torch.Tensor)
    ):
        return None
    return diff_of(insert_after(found.spot.filename, node, "[0]"))


def _patch(thing: Any, found: Result) -> str | None:
    node = found.statement
    if node is None:
        return None
    filename = found.spot.filename
    if found.returns_nothing:
        if isinstance(node, ast.Expr):
            return diff_of(insert_before(filename, node, "return "))
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            indent = " " * span_of(node).column
            return diff_of(
                replace_node(
                    filename, node, f"{ast.unparse(node)}\n{indent}return {node.targets[0].id}"
                )
            )
        return None
    if (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(thing, tuple)
    ):
        rest = ", _" * (len(thing) - 1)
        return diff_of(replace_node(filename, node.targets[0], f"{node.targets[0].id}{rest}"))
    return None
