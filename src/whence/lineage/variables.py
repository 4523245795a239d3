"""What the program's own variables still show of a step that was not recorded.

The loss is followed back through the lines that made it, as long as a variable that they read has the NaN already. The line
where none has is read once more, part by part, in a child process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType

import torch

from whence.lineage.following.trace import SourceTrace
from whence.lineage.lines import operation_in
from whence.lineage.live import LiveBirth, places_entered
from whence.lineage.looking import Unknown
from whence.lineage.postmortem import evaluated
from whence.lineage.properties import NotFinite
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.definitions import is_bound_after
from whence.source.operands import operands_of
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, site_of_node, statement_of
from whence.tape.replay import leaving_no_trace, trouble_in
from whence.tape.tape import Tape

NAMES: dict[type[ast.AST], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.Pow: "pow", ast.MatMult: "matmul",
}  # fmt: skip


def birth_in_variables(
    loss: torch.Tensor, frames: list[FrameType], tape: Tape
) -> tuple[LiveBirth, Site | None] | None:
    """The part of a line that makes something that is not finite of variables that are."""
    spot = SourceTrace(NotFinite(tape), frames).follow_object(loss).spot
    line = spot.node() if spot is not None else None
    frame = _frame_of(line, spot, frames) if line is not None and spot is not None else None
    if spot is None or frame is None or not isinstance(line, ast.expr):
        return None
    parts = [each for each in _from_within(line) if isinstance(each, ast.Call | ast.BinOp)]
    try:
        found = run_in_child(lambda: _first(parts, frame), need=Need.EXPRESSION)
    except NotPossible:
        return None
    return (found[1], site_of_node(spot.filename, parts[found[0]])) if found is not None else None


def birth_before(
    entered: LiveBirth, files: Iterable[str], tape: Tape
) -> tuple[LiveBirth, Site] | None:
    """The line that gave an operation something that is not finite, if all places of that operation lead to the same one."""
    found: list[Spot] = []
    for file, given in places_entered(entered, files):
        spot = (
            SourceTrace(NotFinite(tape), []).follow_node(given, file).spot
            if given is not None
            else None
        )
        if spot is None or (
            found and (found[0].filename, found[0].line) != (spot.filename, spot.line)
        ):
            return None
        found.append(spot)
    node = found[0].node() if found else None
    name = operation_in(node) if node is not None else None
    site = site_of_node(found[0].filename, node) if node is not None else None
    return (
        (LiveBirth(name, {}, entered.arguments[entered.entered]), site)
        if name and site is not None
        else None
    )


def _frame_of(line: ast.AST, spot: Spot, frames: list[FrameType]) -> FrameType | None:
    """The frame that still has the variables of a line as they were when it ran."""
    statement = statement_of(line)
    for frame in frames:
        scope = function_node(Site.of(frame)) if frame.f_code.co_filename == spot.filename else None
        if scope is None or statement is None or statement not in ast.walk(scope):
            continue
        read = {each.id for each in ast.walk(line) if isinstance(each, ast.Name)}
        return None if any(is_bound_after(name, scope, statement) for name in read) else frame
    return None


def _from_within(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of an expression, each after those that it is made of."""
    for child in ast.iter_child_nodes(node):
        yield from _from_within(child)
    yield node


def _first(parts: Sequence[ast.AST], frame: FrameType) -> tuple[int, LiveBirth] | None:
    with leaving_no_trace():
        for number, part in enumerate(parts):
            try:
                output = evaluated(part, frame)  # type: ignore[arg-type]
                given = {
                    f"argument {place}": evaluated(node, frame)
                    for place, node in enumerate(operands_of(part))
                }
            except Unknown:
                continue
            if not isinstance(output, torch.Tensor) or not trouble_in(output):
                continue
            if any(isinstance(each, torch.Tensor) and trouble_in(each) for each in given.values()):
                return None
            tensors = {
                name: each.detach() if isinstance(each, torch.Tensor) else each
                for name, each in given.items()
            }
            return number, LiveBirth(_name(part), tensors, output.detach())
    return None


def _name(part: ast.AST) -> str:
    return (
        NAMES.get(type(part.op), "")
        if isinstance(part, ast.BinOp)
        else last_name(part.func)
        if isinstance(part, ast.Call)
        else ""
    )
