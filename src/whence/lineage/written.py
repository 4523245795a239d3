"""Where a constant of the program's stands written: the one that an argument is computed from, under the name it is asked for by."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from whence.lineage.constructors import caller_argument
from whence.source.definitions import FunctionNode, Kind, default_for, find_definition
from whence.source.files import program_files
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, site_of_node, statement_of, tree_of

DEEPEST = 8

Wanted = Callable[[object], bool]


def written(stack: tuple[Site, ...], argument: ast.expr, is_wanted: Wanted) -> Spot | None:
    """The one place where a constant of a kind stands that an argument is computed from."""
    return _only(_places(stack, argument, is_wanted, 0))


def written_number(stack: tuple[Site, ...], argument: ast.expr, number: float) -> Spot | None:
    return written(stack, argument, _is(number))


def written_size(spot: Spot, number: int) -> Spot | None:
    """The same for an expression that makes something of this size: the numbers that are within it, or behind its names."""
    node = spot.node()
    site = site_of_node(spot.filename, node) if node is not None else None
    if site is None or not isinstance(node, ast.expr):
        return None
    return written((site,), node, _is(number))


def written_setting(name: str, number: float) -> Spot | None:
    """The same for one that is handed on under its name, with others."""
    return _only(_settings(name, _is(number)))


def _is(number: float) -> Wanted:
    return lambda value: type(value) in (int, float) and value == number


def _only(places: Iterator[Spot]) -> Spot | None:
    found = {(each.filename, each.line): each for each in places}
    return next(iter(found.values())) if len(found) == 1 else None


def _places(
    stack: tuple[Site, ...], node: ast.expr, is_wanted: Wanted, depth: int
) -> Iterator[Spot]:
    scope = function_node(stack[0]) if stack else None
    if depth > DEEPEST or scope is None:
        return
    match node:
        case ast.Constant(value=value):
            if is_wanted(value):
                yield Spot.of_node(stack[0].filename, node)
        case ast.Name(id=name):
            yield from _named(stack, scope, node, name, is_wanted, depth)
        case ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str() as name)):
            yield from _settings(name, is_wanted)
        case ast.BinOp(left=left, right=right):
            yield from _places(stack, left, is_wanted, depth)
            yield from _places(stack, right, is_wanted, depth)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _places(stack, body, is_wanted, depth)
            yield from _places(stack, orelse, is_wanted, depth)
        case ast.Call(args=args):
            for each in args:
                yield from _places(stack, each, is_wanted, depth)
        case ast.Subscript() | ast.Slice() | ast.Tuple() | ast.List():
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    yield from _places(stack, part, is_wanted, depth)


def _named(
    stack: tuple[Site, ...],
    scope: ast.AST,
    node: ast.Name,
    name: str,
    is_wanted: Wanted,
    depth: int,
) -> Iterator[Spot]:
    known = find_definition(name, scope, statement_of(node))
    if known is None and (tree := tree_of(stack[0].filename)) is not None:
        known = find_definition(name, tree, None)
    if known is not None and known.kind is Kind.ASSIGNED and known.value is not None:
        yield from _places(stack, known.value, is_wanted, depth + 1)
    elif known is not None and known.kind is Kind.PARAMETER and isinstance(scope, FunctionNode):
        given = caller_argument(stack, name)
        default = default_for(scope, name)
        if given is not None:
            yield from _places(stack[1:], given, is_wanted, depth + 1)
        elif default is not None:
            yield from _places(stack, default, is_wanted, depth + 1)


def _settings(name: str, is_wanted: Wanted) -> Iterator[Spot]:
    """Entries of dicts, keywords, fields and options of that name, in all files of the program."""
    for filename in program_files():
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            for value in _entries(node, name):
                if isinstance(value, ast.Constant) and is_wanted(value.value):
                    yield Spot.of_node(filename, value)


def _entries(node: ast.AST, name: str) -> Iterator[ast.expr | None]:
    match node:
        case ast.Dict(keys=keys, values=values):
            pairs = zip(keys, values, strict=True)
            yield from (
                value for key, value in pairs if isinstance(key, ast.Constant) and key.value == name
            )
        case ast.keyword(arg=given, value=value) if given == name:
            yield value
        case ast.AnnAssign(target=target, value=value) | ast.Assign(targets=[target], value=value):
            if last_name(target) == name:
                yield value
        case ast.Call(args=flags, keywords=keywords) if any(
            _is_option(each, name) for each in flags
        ):
            yield from (each.value for each in keywords if each.arg == "default")


def _is_option(flag: ast.expr, name: str) -> bool:
    """`"--learning-rate"` of a command line, which the program reads as `learning_rate`."""
    text = flag.value if isinstance(flag, ast.Constant) else None
    return (
        isinstance(text, str)
        and text.startswith("-")
        and text.lstrip("-").replace("-", "_") == name
    )
