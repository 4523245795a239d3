"""Over variables: a name's definition, a loop's elements, a name that another file defines."""

from __future__ import annotations

import ast
import sys
from types import FrameType
from typing import TYPE_CHECKING

from whence.lineage.following.calls import follow_argument
from whence.lineage.following.carriers import value_of
from whence.lineage.following.containers import Path, follow_filled, is_empty
from whence.lineage.following.found import PASSED_ON
from whence.lineage.grounds import Ground, ground_of, module_ground, outer_sites
from whence.lineage.looking import Unknown
from whence.source.classes import method_of
from whence.source.definitions import Definition, Kind, definitions_before, find_definition, returns_of
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import enclosing, parent_of, statement_of, tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


def follow_variable(trace: SourceTrace, name: str, frame: FrameType, path: Path) -> Spot | None:
    """A variable of a live frame, or of the file that the frame's function stands in."""
    site = Site.of(frame)
    ground = ground_of((site, *outer_sites(frame)), trace.frames)
    if ground is not None and name not in frame.f_locals:
        ground = module_ground(ground, trace.frames)
    if ground is None:
        return None
    found = find_definition(name, ground.scope, site.statement() if name in frame.f_locals else None)
    return follow_definition(trace, found, ground, name=name, path=path) if found is not None else None


def follow_name(trace: SourceTrace, node: ast.Name, ground: Ground, path: Path) -> Spot | None:
    found = _reaching(trace, node, ground)
    if found is not None:
        return follow_definition(trace, found, ground, name=node.id, path=path)
    module = module_ground(ground, trace.frames)
    if module is None or isinstance(ground.scope, ast.Module):
        return _imported(trace, node.id, ground)
    found = find_definition(node.id, module.scope, None)
    if found is not None:
        return follow_definition(trace, found, module, path=path)
    return _imported(trace, node.id, ground)


def _reaching(trace: SourceTrace, node: ast.Name, ground: Ground) -> Definition | None:
    """The definition that reaches a name; of several in the branches of an `if`, the one that gives such a value."""
    before = statement_of(node) or node
    last = find_definition(node.id, ground.scope, before)
    if last is None or not isinstance(enclosing(last.node, ast.If, *SCOPES), ast.If):
        return last
    for other in definitions_before(node.id, ground.scope, before):
        if isinstance(other.value, ast.Constant) and trace.prop.holds(other.value.value):
            return other
    return last


def follow_definition(
    trace: SourceTrace, found: Definition, ground: Ground, *, name: str = "", path: Path = ()
) -> Spot | None:
    if found.kind is Kind.PARAMETER:
        return follow_argument(trace, found, ground, name, path)
    if found.value is None:
        return None
    if is_empty(found.value):
        return follow_filled(trace, name, {ground.filename: ground.scope}, path) if name else None
    spot = Spot.of_node(ground.filename, found.node)
    value, path = found.value, (*found.path, *path)
    if found.kind is Kind.LOOP:
        value, path = _looped_over(value, path)
        if (yielded := _iterated(trace, value, ground, path)) is not None:
            return yielded
    born = trace.expression(value, ground, path)
    if born is not None and born.line != spot.line and found.kind is Kind.ASSIGNED:
        trace.hops.append(spot.hop(PASSED_ON))
    return born


def _looped_over(node: ast.expr, path: Path) -> tuple[ast.expr, Path]:
    """Past `enumerate` and `zip`: what the named part of an element comes from."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and path and node.args:
        if node.func.id == "enumerate" and path[0] == 1:
            return _looped_over(node.args[0], path[1:])
        if node.func.id == "zip" and isinstance(path[0], int) and path[0] < len(node.args):
            return _looped_over(node.args[path[0]], path[1:])
    return node, path


def _iterated(trace: SourceTrace, node: ast.expr, ground: Ground, path: Path) -> Spot | None:
    """A loop over an object of the program's: what its `__iter__` yields."""
    try:
        thing = value_of(trace, node.func if isinstance(node, ast.Call) else node, ground)
    except Unknown:
        return None
    kind = type(thing) if not isinstance(node, ast.Call) else thing
    method, filename = method_of(kind, "__iter__") if isinstance(kind, type) else (None, "")
    if method is None:
        return None
    yields = [each for each in returns_of(method) if isinstance(parent_of(each), ast.Yield)]
    return trace.expression(yields[-1], Ground(filename, method), path) if yields else None


def _imported(trace: SourceTrace, name: str, ground: Ground) -> Spot | None:
    """A name that another file of the program defines."""
    tree = tree_of(ground.filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == name for each in node.names):
            original = next(each.name for each in node.names if (each.asname or each.name) == name)
            module = sys.modules.get(node.module or "")
            filename = getattr(module, "__file__", None)
            if filename and not is_library(filename) and (other := tree_of(filename)) is not None:
                found = find_definition(original, other, None)
                if found is not None:
                    return follow_definition(trace, found, Ground(filename, other))
    return None
