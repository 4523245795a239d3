"""Over attributes: what the class of an object puts there."""

from __future__ import annotations

import ast
import sys
from typing import TYPE_CHECKING

from whence.lineage.following.calls import follow_again
from whence.lineage.following.containers import Path, follow_filled, is_empty, running_files
from whence.lineage.following.names import follow_definition
from whence.lineage.grounds import Ground, ground_of, module_ground, outer_sites
from whence.lineage.looking import Unknown, look, names_of
from whence.source.definitions import class_of_method, find_attribute, find_class, find_definition
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


def follow_attribute(trace: SourceTrace, node: ast.Attribute, ground: Ground, path: Path) -> Spot | None:
    """`self.x`: what the class puts there."""
    owner = _class_of(node.value, ground)
    if owner is None:
        return None
    class_node, filename = owner
    if (made := _constructed_again(trace, node.value, ground)) is not None:
        return made
    definition = find_attribute(node.attr, class_node)
    if definition is None or definition.value is None:
        return _field(node.attr, class_node, filename)
    if is_empty(definition.value):
        return follow_filled(trace, node.attr, running_files(trace, filename), path)
    method = next(
        each for each in class_node.body if isinstance(each, ast.FunctionDef) and definition.node in ast.walk(each)
    )
    inner = Ground(filename, method)
    try:
        held = look(node, ground.frame) if ground.frame is not None else None
    except Unknown:
        held = None
    if held is not None and isinstance(definition.value, ast.Name):
        found = trace.continued().follow_object(held)
        if found.spot is not None:
            return found.spot
    return follow_definition(trace, definition, inner)


def _constructed_again(trace: SourceTrace, node: ast.expr, ground: Ground) -> Spot | None:
    """The line of a constructor that made an attribute so, where the program still has all that it was called with."""
    try:
        thing = look(node, ground.frame) if trace.prop.shows_in_lines and ground.frame is not None else None
    except Unknown:
        return None
    for name, frame in names_of(thing, trace.frames) if thing is not None else ():
        site = Site.of(frame)
        outside = ground_of((site, *outer_sites(frame)), trace.frames)
        if outside is not None and name not in frame.f_locals:
            outside = module_ground(outside, trace.frames)
        definition = find_definition(name, outside.scope, None) if outside is not None else None
        if outside is not None and definition is not None and isinstance(definition.value, ast.Call):
            return follow_again(trace, definition.value, outside)
    return None


def _field(name: str, class_node: ast.ClassDef, filename: str) -> Spot | None:
    """A class attribute or a dataclass field with a default."""
    for node in class_node.body:
        target: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        if isinstance(target, ast.Name) and target.id == name and getattr(node, "value", None) is not None:
            return Spot.of_node(filename, node)
    return None


def _class_of(node: ast.expr, ground: Ground) -> tuple[ast.ClassDef, str] | None:
    """The class of the program's that an expression's object is of, and its file."""
    if ground.frame is not None:
        try:
            kind = type(look(node, ground.frame))
        except Unknown:
            kind = None
        if kind is not None:
            filename = getattr(sys.modules.get(kind.__module__), "__file__", None) or ground.filename
            tree = None if is_library(filename) else tree_of(filename)
            found = find_class(kind.__name__, tree) if tree is not None else None
            return (found, filename) if found is not None else None
    if isinstance(node, ast.Name) and node.id == "self":
        owner = class_of_method(ground.scope)
        return (owner, ground.filename) if owner is not None else None
    return None
