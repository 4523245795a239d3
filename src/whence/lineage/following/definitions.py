"""Over definitions: what is assigned, looped over or passed; and of several places that set a thing, the one to blame."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from whence.lineage.following.calls import follow_argument
from whence.lineage.following.carriers import value_of
from whence.lineage.following.containers import Path, follow_filled, follow_stored
from whence.lineage.following.found import PASSED_ON, Refuted
from whence.lineage.following.settings import Setting
from whence.lineage.grounds import Ground
from whence.lineage.looking import Unknown
from whence.source.classes import method_of
from whence.source.definitions import Definition, Kind, class_of_method, is_empty, returns_of
from whence.source.spots import Spot
from whence.source.text import parent_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


def follow_settings(
    trace: SourceTrace, settings: Sequence[Setting], owner: Any, path: Path, *, is_one: bool
) -> Spot | None:
    """Of several places that set a thing, the one that can have given it what it has. `is_one` if there is no other such thing."""
    first = [each for each in settings if each.at_first]
    later = [each for each in settings if not each.at_first]
    groups = [first, later]
    if trace.changed:
        # Where there is another of its kind, it may be with that one that it has gone well.
        groups = [later or first] if is_one else [list(settings)]
    tried = [[_tried(trace, each, owner, path) for each in group] for group in groups]
    if all(isinstance(each, Refuted) for group in tried for each in group):
        raise Refuted
    for group in tried:
        found = [each for each in group if isinstance(each, tuple)]
        if is_one:
            # One that says itself what it makes is surer than one that only hands on.
            found = [each for each in found if each[0].made is not None] or found
        if found and not (trace.changed and len({spot for _, spot in found}) > 1):
            trace.adopt(found[0][0])
            return found[0][1]
    return None


def _tried(
    trace: SourceTrace, setting: Setting, owner: Any, path: Path
) -> tuple[SourceTrace, Spot] | Refuted | None:
    owner = owner if class_of_method(setting.scope) is not None else None
    ground = Ground(setting.filename, setting.scope, owner=owner, stale=setting.target)
    aside = trace.branched()
    try:
        spot = follow_definition(
            aside, setting.definition, ground, path=path if setting.whole else path[1:]
        )
    except Refuted as refuted:
        return refuted
    return (aside, spot) if spot is not None else None


def follow_definition(
    trace: SourceTrace, found: Definition, ground: Ground, *, name: str = "", path: Path = ()
) -> Spot | None:
    if found.kind is Kind.PARAMETER:
        return follow_argument(trace, found, ground, name, path)
    if found.value is None:
        return None
    if is_empty(found.value):
        # A whole list is asked for where a function returns it, or for one number; else it is not known which part of an element is.
        is_asked = bool(path) or ground.caller is not None or trace.prop.singles_out
        return (
            follow_filled(trace, name, {ground.filename: ground.scope}, path)
            if name and is_asked
            else None
        )
    spot = Spot.of_node(ground.filename, found.node)
    value, path = found.value, (*found.path, *path)
    if found.kind is Kind.LOOP:
        value, path = _looped_over(value, path)
        if (yielded := _iterated(trace, value, ground, path)) is not None:
            return yielded
    stored = follow_stored(trace, value, ground, name or ground.stale) if not path else None
    born = stored or trace.expression(value, ground, path)
    told = {born.line if born is not None else 0, trace.hops[-1].line if trace.hops else 0}
    if born is not None and spot.line not in told and found.kind is Kind.ASSIGNED:
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
