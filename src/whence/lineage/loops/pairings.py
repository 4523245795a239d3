"""Where the program's lines put two sequences side by side, and what they are called inside and outside of a function."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.lineage.loops.histories import history_of
from whence.lineage.loops.nodes import DEEPEST, is_module, is_name, is_owner, is_variable, position
from whence.lineage.loops.orders import unconverted
from whence.source.definitions import (
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    find_definition,
    own_nodes,
    parameter_names,
    returns_of,
)
from whence.source.text import last_name, statement_of


def outside(
    inputs: ast.expr, labels: ast.expr, scope: ast.AST, call: ast.AST | None
) -> list[ast.expr]:
    """What a call passes for two parameters that a function pairs as they are; nothing if it does not."""
    found: list[ast.expr] = []
    for each in (history_of(inputs, scope), history_of(labels, scope)):
        function = (
            each.root.node if each.root is not None and each.root.kind is Kind.PARAMETER else None
        )
        if (
            function is not scope
            or not isinstance(function, FunctionNode)
            or each.changes
            or each.unknown
        ):
            return []
        bound = class_of_method(function) is not None and parameter_names(function)[:1] == ["self"]
        given = (
            argument_for(call, function, each.names[-1], bound=bound)
            if isinstance(call, ast.Call)
            else None
        )
        found += [given] if given is not None else []
    return found if len(found) == 2 else []


def inside(
    inputs: ast.expr, labels: ast.expr, scope: ast.AST
) -> tuple[ast.Call, list[tuple[int, ...]]] | None:
    """A call that gave both sequences, as they are, and which parts of its result they are."""
    roots = [
        each.root
        for each in (history_of(inputs, scope), history_of(labels, scope))
        if not each.unknown
    ]
    if len(roots) < 2 or any(each is None or not each.path for each in roots):
        return None
    found = [each for each in roots if each is not None]
    call = found[0].value
    return (
        (call, [each.path for each in found])
        if isinstance(call, ast.Call) and call is found[1].value
        else None
    )


def returned(function: FunctionNode, path: tuple[int, ...]) -> ast.expr | None:
    """A part of what a function returns, if it returns in one place only."""
    results = returns_of(function)
    node = results[0] if len(results) == 1 else None
    for number in path:
        node = (
            node.elts[number]
            if isinstance(node, ast.Tuple | ast.List) and number < len(node.elts)
            else None
        )
    return node


def without_common_index(one: ast.expr, other: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Two sequences of which the same elements are taken."""
    while (
        isinstance(one, ast.Subscript)
        and isinstance(other, ast.Subscript)
        and ast.unparse(one.slice) == ast.unparse(other.slice)
    ):
        one, other = one.value, other.value
    return one, other


def constructed(
    inputs: ast.expr, labels: ast.expr, scope: ast.AST
) -> tuple[str, tuple[int, int]] | None:
    """A class whose objects pair two arguments of their constructor as they are: its name, and which arguments."""
    places: list[int] = []
    owner = class_of_method(scope)
    for each in (history_of(inputs, scope), history_of(labels, scope)):
        function = (
            each.root.node if each.root is not None and each.root.kind is Kind.PARAMETER else None
        )
        if (
            not isinstance(function, ast.FunctionDef)
            or function.name != "__init__"
            or each.changes
            or each.unknown
        ):
            return None
        places.append(parameter_names(function).index(each.names[-1]) - 1)
    return (owner.name, (places[0], places[1])) if owner is not None else None


def pairings_in(
    scope: ast.AST, datasets: dict[str, tuple[int, int] | None]
) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Where two sequences are put side by side: the expression, the first of them and the last. Of datasets, which arguments they are."""
    for node in own_nodes(scope):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            first, second = map(unconverted, node.elts)
            one, other = without_common_index(first, second)
            if one is not first and is_variable(one) and is_variable(other):
                yield node, first, second
        if not isinstance(node, ast.Call) or any(
            isinstance(each, ast.Starred) for each in node.args
        ):
            continue
        name = last_name(node.func)
        places = (0, -1) if name in ("zip", "TensorDataset") else datasets.get(name)
        if places is not None and len(node.args) > max(1, *places):
            yield node, node.args[places[0]], node.args[places[1]]


def given_to(call: ast.Call, scope: ast.AST) -> ast.expr | None:
    """Of a loss: what the model was given that it looks at."""
    node: ast.expr | None = call.args[0] if call.args else None
    for _ in range(DEEPEST):
        if isinstance(node, ast.Name):
            definition = find_definition(node.id, scope, statement_of(node) or node)
            node = (
                definition.value
                if definition is not None and definition.kind is Kind.ASSIGNED
                else None
            )
        elif isinstance(node, ast.Call) and node.args and _is_applied(node):
            node = node.args[0]
            if not isinstance(node, ast.Call):
                return node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_model = is_owner(node.func.value)
            node = node.func.value if not is_model else node.args[0] if node.args else None
            if isinstance(node, ast.Name) or (is_model and isinstance(node, ast.Subscript)):
                return node
        else:
            return None
    return None


def _is_applied(call: ast.Call) -> bool:
    """`model(x)`, `torch.relu(x)`: what it works on stands in brackets."""
    return not isinstance(call.func, ast.Attribute) or is_module(call.func.value)


def attributes_of_self(names: list[str]) -> list[ast.expr]:
    return [ast.Attribute(ast.Name("self", ast.Load()), each, ast.Load()) for each in names]


def indexed_together(getter: ast.FunctionDef) -> list[str]:
    """The attributes of which `__getitem__` takes the element at the index that it is asked for."""
    asked = getter.args.args[1].arg if len(getter.args.args) > 1 else ""
    found = [
        node.value
        for node in ast.walk(getter)
        if isinstance(node, ast.Subscript)
        and is_name(node.slice, asked)
        and isinstance(node.value, ast.Attribute)
        and is_owner(node.value.value)
    ]
    return list(dict.fromkeys(each.attr for each in sorted(found, key=position)))


def scopes_in(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (
        each
        for each in ast.walk(tree)
        if isinstance(each, FunctionNode) and not isinstance(each, ast.Lambda)
    )
