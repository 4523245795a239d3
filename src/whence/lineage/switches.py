"""Who switched gradients off: a context or a decorator around a call, a generator that stands still within one, or a statement
that holds until somebody switches them on again."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from types import GeneratorType

import torch

from whence.source.files import program_files
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name, parent_of, statement_of, tree_of
from whence.tape.tape import Call

CONTEXTS = frozenset({"no_grad", "inference_mode", "set_grad_enabled"})
SETTERS = frozenset({"set_grad_enabled", "_set_grad_enabled"})
"""These take effect when they are called, and not only when they are entered."""
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LEAVES = (ast.Return, ast.Raise, ast.Break, ast.Continue, ast.Yield, ast.YieldFrom)


def switch_around(call: Call) -> Spot | None:
    """The `with torch.no_grad():`, the decorator or the statement before it under which a call was made."""
    return next((spot for site in call.stack if (spot := _switch_at(site)) is not None), None)


def _switch_at(site: Site) -> Spot | None:
    node: ast.AST | None = site.node() or site.statement()
    while node is not None:
        for item in node.items if isinstance(node, ast.With | ast.AsyncWith) else ():
            if _is_context(item.context_expr):
                return Spot.of_node(site.filename, item.context_expr)
        node = parent_of(node)
    for decorator in getattr(function_node(site), "decorator_list", []):
        if _is_context(decorator):
            return Spot.of_node(site.filename, decorator)
    function = function_node(site)
    before = (
        [each for each in _switches_in(function) if each.lineno < site.f_lineno]
        if function is not None
        else []
    )
    return Spot.of_node(site.filename, before[-1]) if before else None


def left_off() -> Spot | None:
    """Where gradients were switched off for good, if they are off: known by who still holds them off, else from the source."""
    return None if torch.is_grad_enabled() else _held_off() or _switched_off()


def _held_off() -> Spot | None:
    """A generator that yielded from within `with torch.no_grad():` leaves gradients off for whoever goes on with its value."""
    for thing in gc.get_objects():
        frame = thing.gi_frame if type(thing) is GeneratorType and not thing.gi_running else None
        if frame is not None and not is_library(frame.f_code.co_filename):
            node: ast.AST | None = Site.of(frame).statement()
            while node is not None and not isinstance(node, FUNCTIONS):
                for item in node.items if isinstance(node, ast.With) else ():
                    if _is_context(item.context_expr):
                        return Spot.of_node(frame.f_code.co_filename, item.context_expr)
                node = parent_of(node)
    return None


def _switched_off() -> Spot | None:
    """The only statement of the program that does it; of several, the only one behind which not every way switches them on again."""
    found = [
        (name, node)
        for name in program_files()
        for node in _switches_in(tree_of(name) or ast.Module([], []))
    ]
    if len(found) > 1:
        found = [(name, node) for name, node in found if not _is_made_up_for(node)]
    return Spot.of_node(*found[0]) if len(found) == 1 else None


def frozen_at() -> Spot | None:
    """The only statement of the program that tells weights to take no gradient, `p.requires_grad = False` or `requires_grad_(False)`."""
    found = [
        (name, node)
        for name in program_files()
        for node in ast.walk(tree_of(name) or ast.Module([], []))
        if _freezes(node)
    ]
    return Spot.of_node(*found[0]) if len(found) == 1 else None


def _freezes(node: ast.AST) -> bool:
    match node:
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value):
            return not _is_true(value)
        case ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[value]):
            return not _is_true(value)
        case ast.Call(
            func=ast.Attribute(attr="requires_grad_"), keywords=[ast.keyword(value=value)]
        ):
            return not _is_true(value)
    return False


def _switches_in(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=func, args=[given]) if last_name(func) in SETTERS:
                if not _is_true(given) and not _is_scoped(node) and not _restores(node):
                    yield node
            case ast.Call(func=ast.Attribute(attr="__enter__", value=ast.Call() as entered)) if (
                _is_context(entered)
            ):
                yield node
            case ast.Call(
                func=ast.Attribute(attr="__enter__", value=ast.Name() | ast.Attribute() as entered)
            ):
                if _is_named(last_name(entered), tree):
                    yield node


def _is_context(node: ast.expr) -> bool:
    """`torch.no_grad()`, also as a decorator without its parentheses; not what switches gradients on."""
    target = node.func if isinstance(node, ast.Call) else node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    return last_name(target) in CONTEXTS and not (given is not None and _is_true(given))


def _is_named(name: str, tree: ast.AST) -> bool:
    """Whether a variable is set to such a context."""
    return any(
        isinstance(node, ast.Assign)
        and _is_context(node.value)
        and any(last_name(each) == name for each in node.targets)
        for node in ast.walk(tree)
    )


def _is_true(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def _is_scoped(node: ast.Call) -> bool:
    """It is entered by a `with`, or wraps a function: then it is undone by itself."""
    parent = parent_of(node)
    decorated = isinstance(parent, FUNCTIONS) and node in getattr(parent, "decorator_list", [])
    return (
        isinstance(parent, ast.withitem)
        or decorated
        or (isinstance(parent, ast.Call) and parent.func is node)
    )


def _restores(node: ast.Call) -> bool:
    """`set_grad_enabled(before)`, with what was there before it was switched off."""
    given = node.args[0]
    function = enclosing(node, *FUNCTIONS, ast.Module)
    return isinstance(given, ast.Name) and any(
        isinstance(each, ast.Assign)
        and "is_grad_enabled"
        in {last_name(part.func) for part in ast.walk(each.value) if isinstance(part, ast.Call)}
        and any(last_name(target) == given.id for target in each.targets)
        for each in ast.walk(function or node)
    )


def _is_made_up_for(node: ast.AST) -> bool:
    """Whether gradients are switched on again behind a statement, on every way that leads on from it."""
    return _followed_by(node)[0]


def way_out(spot: Spot) -> Spot | None:
    """The statement by which the program gets away from a switch without switching gradients on again."""
    node = spot.node()
    leaving = _followed_by(node)[1] if node is not None else None
    return Spot.of_node(spot.filename, leaving) if leaving is not None else None


def _followed_by(node: ast.AST) -> tuple[bool, ast.AST | None]:
    """Whether gradients are switched on again, and what leaves before that."""
    current: ast.AST | None = statement_of(node)
    while current is not None and not isinstance(current, FUNCTIONS):
        parent = parent_of(current)
        if isinstance(parent, ast.Try) and any(map(_switches_on, parent.finalbody)):
            return True, None
        block = (
            next((each for each in _blocks(parent) if current in each), [])
            if parent is not None
            else []
        )
        for each in block[block.index(current) + 1 :] if current in block else ():
            if _switches_on(each) or (
                isinstance(each, ast.Try) and any(map(_switches_on, each.finalbody))
            ):
                return True, None
            leaving = next((part for part in ast.walk(each) if isinstance(part, LEAVES)), None)
            if leaving is not None:
                return False, leaving
        current = parent
    return False, None


def _switches_on(statement: ast.stmt) -> bool:
    """A statement that does it whatever happens: not one within an `if`."""
    match statement:
        case ast.Expr(value=ast.Call(func=func, args=[given]) as call) if (
            last_name(func) in SETTERS
        ):
            return _is_true(given) or _restores(call) or not isinstance(given, ast.Constant)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="__exit__"))):
            return True
    return False


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        if isinstance(block := getattr(node, name, None), list):
            yield block
