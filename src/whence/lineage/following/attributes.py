"""Over attributes: what the class of an object puts there."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from whence.lineage.following.calls import follow_again
from whence.lineage.following.carriers import value_of
from whence.lineage.following.containers import Path, follow_filled, running_files
from whence.lineage.following.definitions import follow_settings
from whence.lineage.following.settings import attribute_settings
from whence.lineage.grounds import Ground, ground_of, look_at, module_ground, outer_sites
from whence.lineage.looking import Unknown, look, names_of
from whence.source.classes import class_node
from whence.source.definitions import class_of_method, find_attribute, find_definition
from whence.source.sites import Site, variables
from whence.source.spots import Spot
from whence.source.text import last_name

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


def follow_attribute(
    trace: SourceTrace, node: ast.Attribute, ground: Ground, path: Path
) -> Spot | None:
    """`self.x`: what the class, or somebody else, puts there."""
    known = _class_of(trace, node.value, ground)
    if known is None:
        return None
    kind, filename, owner = known
    if (made := _constructed_again(trace, node.value, ground)) is not None:
        return made
    kinds = {kind.name: filename}
    if owner is not None:
        kinds = {each.__name__: class_node(each)[1] for each in reversed(type(owner).__mro__)}
    settings = attribute_settings(node.attr, kinds, path, filename)
    if not settings:
        if find_attribute(node.attr, kind) is not None:
            return (
                follow_filled(trace, node.attr, running_files(trace, filename), path)
                if path
                else None
            )
        return _given_field(trace, node.attr, owner) or _field(node.attr, kind, filename)
    if len(settings) == 1 and isinstance(settings[0].definition.value, ast.Name):
        with suppress(Unknown):
            held = value_of(trace, node, ground)
            if (
                held is not None
                and (found := trace.continued().follow_object(held)).spot is not None
            ):
                return found.spot
    return follow_settings(
        trace, settings, owner, path, is_one=owner is not None and _is_only_one(owner)
    )


def _is_only_one(thing: Any) -> bool:
    return sum(type(each) is type(thing) for each in gc.get_objects()) == 1


def _constructed_again(trace: SourceTrace, node: ast.expr, ground: Ground) -> Spot | None:
    """The line of a constructor that made an attribute so, where the program still has all that it was called with."""
    try:
        thing = (
            look(node, ground.frame)
            if trace.prop.shows_in_lines and ground.frame is not None
            else None
        )
    except Unknown:
        return None
    made = next(_constructions(trace, thing), None) if thing is not None else None
    return follow_again(trace, *made) if made is not None else None


def _constructions(trace: SourceTrace, thing: Any) -> Iterator[tuple[ast.Call, Ground]]:
    """The calls whose result the variables that hold an object were given."""
    for name, frame in names_of(thing, trace.frames):
        site = Site.of(frame)
        outside = ground_of((site, *outer_sites(frame)), trace.frames)
        if outside is not None and name not in variables(frame):
            outside = module_ground(outside, trace.frames)
        definition = find_definition(name, outside.scope, None) if outside is not None else None
        if (
            outside is not None
            and definition is not None
            and isinstance(definition.value, ast.Call)
        ):
            yield definition.value, outside


def _given_field(trace: SourceTrace, name: str, thing: Any) -> Spot | None:
    """What a dataclass was given for a field when it was made."""
    if not is_dataclass(thing) or isinstance(thing, type):
        return None
    order = [each.name for each in fields(thing) if each.init and not each.kw_only]
    for call, ground in _constructions(trace, thing):
        if last_name(call.func) != type(thing).__name__:
            continue
        given = dict(zip(order, call.args, strict=False)) | {
            each.arg: each.value for each in call.keywords if each.arg
        }
        return trace.expression(given[name], ground) if name in given else None
    return None


def _field(name: str, kind: ast.ClassDef, filename: str) -> Spot | None:
    """A class attribute or a dataclass field with a default."""
    for node in kind.body:
        target: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target = node.target
        elif isinstance(node, ast.Assign):
            target = node.targets[0]
        if (
            isinstance(target, ast.Name)
            and target.id == name
            and getattr(node, "value", None) is not None
        ):
            return Spot.of_node(filename, node)
    return None


def _class_of(
    trace: SourceTrace, node: ast.expr, ground: Ground
) -> tuple[ast.ClassDef, str, Any] | None:
    """The class of the program's that an expression's object is of, its file, and the object if it can be had."""
    with suppress(Unknown):
        thing = look_at(node, ground, trace.frames)
        found, filename = class_node(thing if isinstance(thing, type) else type(thing))
        return (
            (found, filename, None if isinstance(thing, type) else thing)
            if found is not None
            else None
        )
    if isinstance(node, ast.Name) and node.id == "self":
        owner = class_of_method(ground.scope)
        return (owner, ground.filename, None) if owner is not None else None
    return None
