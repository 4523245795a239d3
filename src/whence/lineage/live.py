"""What autograd still holds of a step that was not recorded, read before backward lets go of it.

A node of the graph has the name of its operation and, under the names of that operation's arguments, what it saved of them.
Where that is enough the operation is run again: no tape is needed to see that it makes a NaN of finite numbers. What a node
has not is the line: that is known only if the program has the operation on just one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.operands import operands_of
from whence.source.sites import Site
from whence.source.text import site_of_node, tree_of
from whence.tape.hand import weights_under
from whence.tape.replay import leaving_no_trace, trouble_in
from whence.tape.tape import Call, Foreign, Tape, Value
from whence.tape.trip import Born
from whence.torch_internals import input_metadata

MOST_NODES = 5000
OPERATORS: dict[str, type[ast.operator]] = {
    "div": ast.Div,
    "pow": ast.Pow,
    "mul": ast.Mult,
    "sub": ast.Sub,
}
NOT_KEPT = Foreign("Tensor", "a tensor that autograd did not keep", 0)


@dataclass(frozen=True, slots=True)
class LiveBirth:
    """An operation of the graph that gave NaN or Inf, and what it was given, as far as autograd kept it."""

    name: str
    arguments: dict[str, Any]
    output: torch.Tensor
    entered: str = ""
    """The argument that was not finite already and hangs on no graph: it came in there."""
    rehearsed: float | None = None
    """It is known only that the operation does so with this number, and no other operation near it with any."""


def live_birth(loss: torch.Tensor) -> LiveBirth | None:
    """The first operation under a loss that makes something that is not finite of finite numbers.

    What was saved may come out of a hook of the program's, or by computing a checkpointed part again: in a child process.
    """
    if loss.grad_fn is None or any(map(trouble_in, weights_under(loss))):
        # With weights that were not finite before, no operation of this step has made it.
        return None
    try:
        return run_in_child(lambda: _search(loss), need=Need.GRAPH)
    except NotPossible:
        return None


def _search(loss: torch.Tensor) -> LiveBirth | None:
    with leaving_no_trace(), torch.no_grad():
        for node in _from_below(loss.grad_fn):
            born = _look(node)
            if born is not None:
                # If it was given one by another operation, that could not be run again.
                return (
                    _entered(node, born) if any(map(trouble_in, born.arguments.values())) else born
                )
    return None


def _entered(node: Any, born: LiveBirth) -> LiveBirth | None:
    """The operation that was given something that is not finite and that no operation of the graph has made."""
    tensors = [(name, each) for name, each in born.arguments.items() if _is_tensor(each)]
    if len(tensors) != len(node.next_functions):
        return None
    for (name, each), (maker, _) in zip(tensors, node.next_functions, strict=True):
        if trouble_in(each):
            return replace(born, entered=name) if maker is None else None
    return None


def _is_tensor(thing: Any) -> bool:
    return isinstance(thing, torch.Tensor) or thing is NOT_KEPT


def _from_below(root: Any) -> Iterator[Any]:
    """The nodes of a graph, each after all that it depends on."""
    seen: set[Any] = {root}
    pending: list[tuple[Any, bool]] = [(root, False)]
    while pending and len(seen) < MOST_NODES:
        node, is_ready = pending.pop()
        if not is_ready:
            pending.append((node, True))
            below = [
                child for child, _ in node.next_functions if child is not None and child not in seen
            ]
            seen.update(below)
            pending += [(child, False) for child in below]
        else:
            yield node


def _look(node: Any) -> LiveBirth | None:
    """The operation of a node, run again on what was saved of its arguments; else the result, if that was saved."""
    match = re.fullmatch(r"(\w+?)Backward\d+", node.name())
    if match is None:
        return None
    name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", match[1]).lower()
    for packet in (getattr(torch.ops.aten, each, None) for each in (name, f"_{name}")):
        for overload in packet.overloads() if packet is not None else ():
            operation = getattr(packet, overload)
            given = _arguments(node, operation._schema)
            if given is None:
                continue
            try:
                output = operation(
                    **{each: _stand_in(node, thing) for each, thing in given.items()}
                )
            except (RuntimeError, TypeError, ValueError):
                continue
            output = output[0] if isinstance(output, tuple) else output
            return LiveBirth(name, given, output) if trouble_in(output) else None
    for result in ("result", "output"):
        output = _saved(node, result)
        if trouble_in(output):
            return LiveBirth(name, {}, output)
    return None


def _arguments(node: Any, schema: Any) -> dict[str, Any] | None:
    """What an operation needs, by name. A tensor may be missing, if there is another; nothing else may."""
    found: dict[str, Any] = {}
    for argument in schema.arguments:
        saved = _saved(node, argument.name)
        if saved is None and not argument.has_default_value():
            if str(argument.type) != "Tensor":
                return None
            saved = NOT_KEPT
        if saved is not None:
            found[argument.name] = saved
    return found if any(isinstance(each, torch.Tensor) for each in found.values()) else None


def _stand_in(node: Any, thing: Any) -> Any:
    """Ones for a tensor that was not kept: what is not finite with these is so because of the others."""
    if not isinstance(thing, Foreign):
        return thing
    known = input_metadata(node)
    if not known:
        # One number goes with tensors of any size, where an operation goes element by element.
        return torch.ones(())
    return torch.ones(known[0].shape, dtype=known[0].dtype, device=known[0].device)


def _saved(node: Any, name: str) -> Any:
    try:
        saved = getattr(node, f"_saved_{name}", None)
    except RuntimeError:
        # Backward has been here already.
        return None
    if isinstance(saved, torch.Tensor):
        return saved.detach()
    # An axis counted from the end is saved as a number without a sign.
    return saved - 2**64 if isinstance(saved, int) and saved >= 2**63 else saved


def as_born(live: LiveBirth, site: Site | None, tape: Tape, step: int) -> Born:
    """The same as a call of the tape."""

    def value(thing: Any) -> Any:
        return tape.value_of(thing) if isinstance(thing, torch.Tensor) else thing

    given = tuple(map(value, live.arguments.values()))
    call = Call(
        number=tape.count,
        func=getattr(torch, live.name, getattr(torch.nn.functional, live.name, None))
        or (lambda *_: None),
        name=live.name,
        args=given,
        kwargs={},
        stack=(site,) if site is not None else (),
        module=None,
        step=step,
        phase="forward",
        grad_mode=True,
        autocast=None,
        outputs=(tape.value_of(live.output),),
        operands=tuple(each for each in given if isinstance(each, Value)),
    )
    return Born(trouble_in(live.output), call, output=call.outputs[0])


def places_entered(birth: LiveBirth, files: Iterable[str]) -> Iterator[tuple[str, ast.expr | None]]:
    """Wherever a program has the operation: the file, and the expression for what was not finite already."""
    name = birth.name.removesuffix("_backward")
    packet = getattr(torch.ops.aten, name, None)
    arguments = (
        [each.name for each in getattr(packet, packet.overloads()[0])._schema.arguments]
        if packet
        else []
    )
    place = arguments.index(birth.entered) if birth.entered in arguments else len(arguments)
    for file, node in places_of(name, files):
        given = operands_of(node)
        yield file, given[place] if place < len(given) else None


def only_site(name: str, files: Iterable[str]) -> Site | None:
    """The place in a program that has an operation, if there is just one."""
    found = places_of(name, files)
    return site_of_node(*found[0]) if len(found) == 1 else None


def places_of(name: str, files: Iterable[str]) -> list[tuple[str, ast.AST]]:
    """All places in a program that have an operation: the file, and the expression."""
    found: list[tuple[str, ast.AST]] = []
    for file in sorted(set(files)):
        tree = tree_of(file)
        for node in ast.walk(tree) if tree is not None else ():
            called = node.func if isinstance(node, ast.Call) else None
            is_call = getattr(called, "attr", getattr(called, "id", None)) == name
            if is_call or (
                isinstance(node, ast.BinOp)
                and isinstance(node.op, OPERATORS.get(name, ast.MatMult))
            ):
                found.append((file, node))
    return found
