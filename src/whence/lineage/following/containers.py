"""Into containers and out of them: tuples, dicts and named tuples that are written out, and lists and arrays that are filled later."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from whence.lineage.births import UNINITIALISED
from whence.lineage.following.carriers import is_known_not_to_hold, value_of
from whence.lineage.following.columns import column_given
from whence.lineage.following.found import Refuted
from whence.lineage.grounds import Ground, ground_of_node
from whence.lineage.looking import Unknown
from whence.lineage.properties import BLANKS, called_name
from whence.source.definitions import own_nodes
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace

Path = tuple[Any, ...]
# Calls that give some of the elements of what they are given first, or all of them.
ELEMENTS = {"sample", "choices", "list", "tuple", "sorted", "reversed"}


def part_given(trace: SourceTrace, node: ast.expr, ground: Ground, key: Any) -> ast.expr | None:
    """What stands in a container that is written out for one of its parts."""
    if isinstance(node, ast.Tuple | ast.List) and isinstance(key, int) and key < len(node.elts):
        return node.elts[key]
    for name, value in _entries(node):
        if name == key:
            return value
    if (
        called_name(node) == "train_test_split"
        and isinstance(node, ast.Call)
        and isinstance(key, int)
    ):
        return node.args[key // 2] if key // 2 < len(node.args) else None
    if (column := column_given(node, key)) is not None:
        return column
    return _field_given(trace, node, ground, key) if isinstance(node, ast.Call) else None


def whole_of(
    trace: SourceTrace, node: ast.expr, ground: Ground, path: Path
) -> tuple[ast.expr, Path] | None:
    """What an expression takes a part from, or some elements, and the way from there to the part that is asked for."""
    if isinstance(node, ast.Subscript) and (key := _key(trace, node.slice)) is not None:
        return node.value, (key, *path)
    if path and isinstance(node, ast.Call) and (held := _elements_of(node)) is not None:
        return held, path
    if (
        isinstance(node, ast.Attribute)
        and (number := _field_number(trace, node, ground)) is not None
    ):
        return node.value, (number, *path)
    return None


def _key(trace: SourceTrace, node: ast.expr) -> str | None:
    """The name that stands between brackets: written there, or that of the turn of a comprehension that is asked for."""
    key = node.value if isinstance(node, ast.Constant) else None
    around = enclosing(node, ast.DictComp) if isinstance(node, ast.Name) else None
    if isinstance(around, ast.DictComp) and ast.unparse(around.key) == ast.unparse(node):
        key = trace.keys.get(id(around))
    return key if isinstance(key, str) else None


def _entries(node: ast.expr) -> Iterator[tuple[Any, ast.expr]]:
    """The keys of a dict that is written out, with what stands there."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield key.value, value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        yield from ((each.arg, each.value) for each in node.keywords)


def _field_given(trace: SourceTrace, node: ast.Call, ground: Ground, key: Any) -> ast.expr | None:
    """What a named tuple is made with for one of its fields."""
    try:
        kind = value_of(trace, node.func, ground)
    except Unknown:
        return None
    names = getattr(kind, "_fields", ()) if isinstance(kind, type) else ()
    if (
        not isinstance(key, int)
        or key >= len(names)
        or any(isinstance(each, ast.Starred) for each in node.args)
    ):
        return None
    given = dict(zip(names, node.args, strict=False)) | {
        each.arg: each.value for each in node.keywords if each.arg
    }
    return given.get(names[key])


def _field_number(trace: SourceTrace, node: ast.Attribute, ground: Ground) -> int | None:
    """Which field of a named tuple an attribute is."""
    try:
        names = getattr(type(value_of(trace, node.value, ground)), "_fields", ())
    except Unknown:
        return None
    return names.index(node.attr) if node.attr in names else None


def _elements_of(node: ast.Call) -> ast.expr | None:
    """Of whose elements a call makes its own: `random.sample(X, 8)`; `zip(*X)` and `Step(*zip(*X))`, where each field stands together."""
    match node:
        case ast.Call(
            args=[ast.Starred(value=ast.Call(func=ast.Name(id="zip")) as inner)], keywords=[]
        ):
            return _elements_of(inner)
        case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred(value=held)]):
            return held
        case ast.Call(args=[held, *_]) if last_name(node.func) in ELEMENTS:
            return held
    return None


def follow_filled(
    trace: SourceTrace, name: str, scopes: dict[str, ast.AST], path: Path
) -> Spot | None:
    """The elements of a list or a deque that begins empty: what is appended to it, if that is done in one place."""
    found = [
        (node.args[0], file)
        for file, scope in scopes.items()
        for node in ast.walk(scope)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and (node.func.attr, len(node.args)) == ("append", 1)
        and last_name(node.func.value) == name
    ]
    if not path and trace.prop.singles_out:
        found = [each for each in found if each[0] is _bearer(trace, [given for given, _ in found])]
    if len(found) != 1:
        return None
    given, file = found[0]
    ground = ground_of_node(given, file, trace.frames)
    if (path and trace.part_of(given, ground, path[:1]) is given) or not (
        path or trace.prop.singles_out
    ):
        # Which part of it that is cannot be told.
        return None
    return trace.expression(given, ground, path)


def _bearer(trace: SourceTrace, given: list[ast.expr]) -> ast.expr | None:
    """Of all that is put into something, what can have the property: the number itself that is written there, else the only expression."""
    written = [
        each for each in given if isinstance(each, ast.Constant) and trace.prop.holds(each.value)
    ]
    computed = [each for each in given if not isinstance(each, ast.Constant)]
    return (
        written[0]
        if len(written) == 1
        else computed[0]
        if len(computed) == 1 and not written
        else None
    )


PLACES = frozenset({"loc", "iloc", "at", "iat"})
COPIES = frozenset({"list", "copy", "clone", "deepcopy", "array", "tolist"})


def follow_stored(trace: SourceTrace, made: ast.expr, ground: Ground, name: str) -> Spot | None:
    """A value in something that is written into later, `name[...] = value`, if that can have been in one place."""
    if not trace.prop.singles_out:
        return None
    names = {name, *_parts_in_turn(name, ground.scope)}
    stored = [
        node.value
        for node in own_nodes(ground.scope)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript) and ast.unparse(_written_to(target)) in names
    ]
    blank = called_name(made)
    if blank in BLANKS.keys() | UNINITIALISED and not trace.prop.holds(BLANKS.get(blank)):
        bearer = _bearer(trace, stored)
    elif blank in COPIES and trace.prop.shows_together and len(stored) == 1:
        # A copy is made to be written into.
        bearer = stored[0]
    else:
        bearer = next((each for each in stored if _is_known_to_hold(trace, each, ground)), None)
    return trace.expression(bearer, ground) if bearer is not None else None


def _written_to(target: ast.Subscript) -> ast.expr:
    """`array[...]`, and what pandas has for it: `table.loc[...]`."""
    held = target.value
    return held.value if isinstance(held, ast.Attribute) and held.attr in PLACES else held


def _parts_in_turn(name: str, scope: ast.AST) -> Iterator[str]:
    """`for part in name[::7]`, `for part, other in zip(name, others)`: what is written into a part is in the whole."""
    for loop in own_nodes(scope):
        match loop:
            case ast.For(
                target=ast.Name(id=part),
                iter=ast.Name() | ast.Attribute() | ast.Subscript() as through,
            ):
                held = through.value if isinstance(through, ast.Subscript) else through
                if ast.unparse(held) == name:
                    yield part
            case ast.For(
                target=ast.Tuple(elts=parts), iter=ast.Call(func=ast.Name(id="zip"), args=through)
            ):
                yield from (
                    ast.unparse(part)
                    for part, held in zip(parts, through, strict=False)
                    if ast.unparse(held) == name
                )


def _is_known_to_hold(trace: SourceTrace, node: ast.expr, ground: Ground) -> bool:
    """`np.nan`, `VOID`: what has a name, or is written there, and has the property."""
    if not isinstance(node, ast.Constant | ast.Name | ast.Attribute | ast.UnaryOp):
        return False
    try:
        return bool(trace.prop.holds(value_of(trace, node, ground)))
    except Unknown:
        return False


def running_files(trace: SourceTrace, filename: str) -> dict[str, ast.AST]:
    """The file, and those that are running."""
    names = dict.fromkeys((filename, *(frame.f_code.co_filename for frame in trace.frames)))
    return {name: tree for name in names if (tree := tree_of(name)) is not None}


def follow_joined(trace: SourceTrace, parts: list[ast.expr], ground: Ground) -> Spot | None:
    """Several things put together: the first that has the property, or None if one of them cannot have it by itself."""
    if getattr(trace.prop, "columns", 0) == len(parts):
        return trace.expression(parts[trace.prop.column], ground)  # type: ignore[attr-defined]
    found: tuple[Spot | None, SourceTrace] | None = None
    for part in parts[:8]:
        if is_known_not_to_hold(trace, part, ground):
            return None
        aside = trace.aside()
        try:
            spot = aside.expression(part, ground)
        except Refuted:
            return None
        if trace.prop.of_the_whole and spot == Spot.of_node(ground.filename, part):
            return None
        found = found or (spot, aside)
    if found is None:
        return None
    trace.hops.extend(found[1].hops)
    return found[0]
