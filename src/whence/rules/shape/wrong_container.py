"""A tuple, None or missing key reached an op that needs a tensor.

What happened
    A layer or function was given what another one returned, and that is not a tensor: the (output, state) of an LSTM, the
    None of a forward without return, a dict; or a method of a tensor's that was not called; or numbers that never became
    a tensor: a numpy array, a list, a float. Or a dict was asked for a name that it does not have.
Why it matters
    The message is about the consumer; the mistake is where the result was not unpacked or not returned.
How it is detected
    The argument itself, and the expression that it came from, followed back to the call that gave it. Numbers: the same call
    on stand-ins without memory raises as it did, and no longer does with a tensor.
How to fix it
    Unpack it (out, _ = lstm(x)), add the missing return, or make a tensor of the numbers (torch.as_tensor).
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
from whence.rules.telling import describe, shape_text, tell
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
    if (told := uncalled(failed) or missing_key(failed)) is not None:
        return told
    for thing in _candidates(failed):
        found = _source(failed, thing)
        if found is None:
            continue
        return tell(
            failed,
            "shape/wrong-container",
            verdict=_verdict(failed, thing, found),
            spot=found.spot,
            why=_why(thing, found),
            fix=_fix(found),
            patch=_patch(thing, found) or _first_of_it(failed, thing, found),
            operands=(Operand("given", describe(thing)),),
        )
    return untensored(failed)


def _candidates(failed: FailedCall) -> list[Any]:
    """The arguments that are no tensors, but hold some or should have been one."""
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
        # Only the side that it is on.
        node = ast.Expr(node.left if thing is failed.args[0] else node.right)
    found = result_of(node, thing, ground, failed.frames, failed.call.stack)
    handed = _handed_over(failed, found.module) if found is not None else None
    if found is None or handed is None:
        return found
    return Result(
        f"{type(found.module).__name__} ({found.giver})", handed, None, module=found.module
    )


def _handed_over(failed: FailedCall, layer: nn.Module | None) -> Spot | None:
    """Where a layer of torch's was built, if that is not in the class that calls it: others fit there, this one does not."""
    stack = failed.modules.built_at(layer) if layer is not None else ()
    here = function_node(failed.site) if failed.site is not None else None
    there = function_node(stack[0]) if stack else None
    if here is None or there is None or not type(layer).__module__.startswith("torch.nn"):
        return None
    return None if class_of_method(here) is class_of_method(there) else Spot.of_site(stack[0])


def _layer_before(failed: FailedCall) -> nn.Module | None:
    """The layer in front of the failed one, where both stand in an nn.Sequential and no line of the program lies between."""
    scope = failed.scope
    parent = scope.parent.module if scope is not None and scope.parent is not None else None
    if not isinstance(parent, nn.Sequential) or not type(scope.module).__module__.startswith(
        "torch.nn"
    ):  # type: ignore[union-attr]
        return None
    layers = list(parent)
    at = next(
        (
            number
            for number, each in enumerate(layers)
            if scope is not None and each is scope.module
        ),
        0,
    )
    return layers[at - 1] if at else None


def _verdict(failed: FailedCall, thing: Any, found: Result) -> str:
    kind = "None" if thing is None else f"a {type(thing).__name__}"
    name = failed.name if failed.name != "getattr" else f".{failed.args[1]}"
    return f"{name} got {kind} from {found.giver}" + (
        ", which returns nothing" if found.returns_nothing else " instead of a tensor"
    )


def _fix(found: Result) -> str:
    if found.returns_nothing:
        return "Add `return` with the result at the end of that forward."
    if found.module is not None and found.statement is None:
        return "Unpack it, out, _ = ...; a layer that others call needs a module around it that returns its output alone."
    return "Unpack it: out, _ = ... keeps the tensor."


def _why(thing: Any, found: Result) -> str:
    if found.returns_nothing:
        return f"{found.giver} computes its result and ends without a return, so that its caller gets None."
    shapes = ", ".join(
        shape_text(each.shape) for each in flatten(thing) if isinstance(each, torch.Tensor)
    )
    return f"{found.giver} gives a {type(thing).__name__} with tensors of {shapes}, and the whole of it was passed on."


def _first_of_it(failed: FailedCall, thing: Any, found: Result) -> str | None:
    """`[0]` behind the call, where it stands in the expression that failed."""
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
