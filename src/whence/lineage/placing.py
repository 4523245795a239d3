"""Where what was built took its place in something larger."""

from __future__ import annotations

import ast

from whence.source.definitions import own_nodes
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, statement_of


def put_in_place(stack: tuple[Site, ...]) -> Spot | None:
    """From the call that built a thing, innermost first: the statement that made it an attribute or an entry of another.

    A module that is built by its own constructor, or handed back by a function, gets its place further out.
    """
    for site in stack:
        node = site.node()
        statement = statement_of(node) if node is not None else None
        function = function_node(site)
        if node is None or statement is None or function is None:
            return None
        if isinstance(statement, ast.Return) or _is_handed_up(statement):
            continue
        if isinstance(statement, ast.Expr) and (puts := _placing(statement.value)) is not None:
            return Spot.of_node(site.filename, puts)
        targets = _targets(statement)
        if len(targets) == 1 and isinstance(targets[0], ast.Name):
            later = _places(targets[0].id, function, statement)
            if later:
                return Spot.of_node(site.filename, later[0])
            if not _is_returned(targets[0].id, function):
                return None
        elif not targets:
            return None
        elif not all(_is_of_its_own(each, function) for each in targets):
            return Spot.of_site(site)
    return None


def _targets(statement: ast.stmt) -> list[ast.expr]:
    match statement:
        case ast.Assign(targets=[ast.Tuple(elts=parts) | ast.List(elts=parts)]):
            return parts
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            return [target]
    return []


def _is_handed_up(statement: ast.stmt) -> bool:
    """`super().__init__(nn.Linear(...), nn.ReLU())`."""
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr="__init__")
            )
        ):
            return True
    return False


def _is_of_its_own(target: ast.expr, function: ast.AST) -> bool:
    """`self.layer = ...` in a constructor."""
    match function, target:
        case (
            ast.FunctionDef(name="__init__", args=ast.arguments(args=[ast.arg(arg=own), *_])),
            ast.Attribute(value=ast.Name(id=name)),
        ):
            return name == own
    return False


def _places(name: str, function: ast.AST, after: ast.stmt) -> list[ast.AST]:
    """Statements that put a variable into an attribute or an entry, in the order of their lines."""
    found: list[ast.AST] = []
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=[ast.Attribute() | ast.Subscript()], value=ast.Name(id=given)):
                pass
            case ast.Call(args=[*_, ast.Name(id=given)]) if _placing(node) is not None:
                pass
            case _:
                continue
        if given == name and node.lineno > after.lineno:
            found.append(node)
    return found


def _placing(node: ast.expr) -> ast.Call | None:
    """`setattr(model, name, layer)`, `model.add_module(name, layer)`."""
    match node:
        case ast.Call(func=ast.Name(id="setattr"), args=[_, _, _]):
            return node
        case ast.Call(func=ast.Attribute(attr="add_module" | "register_module"), args=[_, _]):
            return node
    return None


def _is_returned(name: str, function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Return) and isinstance(node.value, ast.Name) and node.value.id == name
        for node in own_nodes(function)
    )
