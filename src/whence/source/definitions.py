"""Where a name got its value, read from the source.

Covers assignments, loop targets, parameters, attributes and returns.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from whence.source.text import enclosing, parent_of, tree_of

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Kind(Enum):
    ASSIGNED = auto()
    LOOP = auto()
    PARAMETER = auto()


@dataclass(frozen=True, slots=True)
class Definition:
    """One place that binds a name.

    `path` leads into a value that is unpacked: `a, b = f()` binds b at (1,).
    """

    kind: Kind
    node: ast.AST
    value: ast.expr | None
    path: tuple[int, ...] = ()


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes of a function or module, without nested functions and classes."""
    pending = list(ast.iter_child_nodes(scope))
    while pending:
        node = pending.pop(0)
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending[:0] = list(ast.iter_child_nodes(node))


def _bindings(
    target: ast.expr, path: tuple[int, ...] = ()
) -> Iterator[tuple[ast.expr, tuple[int, ...]]]:
    if isinstance(target, ast.Tuple | ast.List):
        for number, element in enumerate(target.elts):
            yield from _bindings(element, (*path, number))
    elif isinstance(target, ast.Starred):
        yield from _bindings(target.value, path)
    else:
        yield target, path


def _definitions_in(scope: ast.AST) -> Iterator[tuple[ast.expr, Definition]]:
    for node in own_nodes(scope):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    for bound, path in _bindings(target):
                        yield bound, _unpacked(Definition(Kind.ASSIGNED, node, value, path))
            case (
                ast.AnnAssign(target=target, value=ast.expr() as value)
                | ast.NamedExpr(target=target, value=value)
            ):
                yield target, Definition(Kind.ASSIGNED, node, value)
            case ast.AugAssign(target=target):
                yield (
                    target,
                    Definition(Kind.ASSIGNED, node, ast.copy_location(_as_binary(node), node)),
                )
            case (
                ast.For(target=target, iter=iterated)
                | ast.comprehension(target=target, iter=iterated)
            ):
                for bound, path in _bindings(target):
                    yield bound, Definition(Kind.LOOP, node, iterated, path)
            case ast.withitem(context_expr=context, optional_vars=ast.expr() as target):
                for bound, path in _bindings(target):
                    yield bound, Definition(Kind.ASSIGNED, context, context, path)


def _as_binary(node: ast.AugAssign) -> ast.BinOp:
    binary = ast.BinOp(left=node.target, op=node.op, right=node.value)
    binary.parent = node  # type: ignore[attr-defined]
    return binary


def _unpacked(definition: Definition) -> Definition:
    """Resolve unpacking: `a, b = x, y` binds b to y and not to a part of a tuple."""
    value, path = definition.value, definition.path
    while path and isinstance(value, ast.Tuple | ast.List) and path[0] < len(value.elts):
        value, path = value.elts[path[0]], path[1:]
    return Definition(definition.kind, definition.node, value, path)


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def parameter_names(function: FunctionNode) -> list[str]:
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args)]


def all_parameter_names(function: FunctionNode) -> list[str]:
    arguments = function.args
    extra = [each.arg for each in (arguments.vararg, arguments.kwarg) if each is not None]
    return [*parameter_names(function), *(each.arg for each in arguments.kwonlyargs), *extra]


def find_definition(name: str, scope: ast.AST, before: ast.AST | None) -> Definition | None:
    """Return the definition of a name that reaches `before`.

    That is the last one above it; in a loop, otherwise the last one below it.
    """
    found = [
        definition
        for target, definition in _definitions_in(scope)
        if isinstance(target, ast.Name) and target.id == name
    ]
    is_parameter = isinstance(scope, FunctionNode) and name in all_parameter_names(scope)
    if before is not None:
        limit = _position(before)
        others = [each for each in found if not _contains(each, before)]
        others = [each for each in others if not _is_in_another_arm(each.node, before)] or others
        earlier = [each for each in others if _position(each.node) < limit]
        found = earlier if earlier or is_parameter else others
    if found:
        return max(found, key=lambda each: _position(each.node))
    return Definition(Kind.PARAMETER, scope, None) if is_parameter else None


def definitions_before(name: str, scope: ast.AST, before: ast.AST) -> list[Definition]:
    """Return all definitions of a name above a statement, nearest first."""
    limit = _position(before)
    found = [
        definition
        for target, definition in _definitions_in(scope)
        if isinstance(target, ast.Name) and target.id == name and _position(definition.node) < limit
    ]
    return found[::-1]


def reaching_definitions(name: str, scope: ast.AST, before: ast.AST) -> list[Definition]:
    """Return all definitions of a name that may reach a statement, likeliest first.

    In a loop these include its own, from the previous iteration.
    """
    first = find_definition(name, scope, before)
    others = [
        definition
        for target, definition in _definitions_in(scope)
        if isinstance(target, ast.Name)
        and target.id == name
        and definition != first
        and enclosing(before, ast.For, ast.While) is not None
    ]
    return [*([first] if first is not None else []), *others]


def is_bound_after(name: str, scope: ast.AST, statement: ast.AST) -> bool:
    """Return whether a name is rebound in this statement or below it.

    Its last value is then not the one used here.
    """
    limit = _position(statement)
    return any(
        isinstance(target, ast.Name)
        and target.id == name
        and definition.kind is Kind.ASSIGNED
        and _position(definition.node) >= limit
        for target, definition in _definitions_in(scope)
    )


def _contains(definition: Definition, node: ast.AST) -> bool:
    if definition.kind is Kind.LOOP:
        return False
    walker: ast.AST | None = node
    while walker is not None:
        if walker is definition.node:
            return True
        walker = parent_of(walker)
    return False


def _is_in_another_arm(node: ast.AST, other: ast.AST) -> bool:
    """Return whether two nodes are in different arms of one `if`.

    A value set in one arm does not reach the other, except from an earlier iteration of a loop.
    """
    arms = dict(arms_around(node))
    return any(arms.get(branching, arm) != arm for branching, arm in arms_around(other))


def arms_around(node: ast.AST) -> Iterator[tuple[ast.If, str]]:
    """Return the `if` statements around a node, each with the arm."""
    walker: ast.AST | None = node
    while walker is not None:
        above = parent_of(walker)
        if isinstance(above, ast.If) and isinstance(walker, ast.stmt):
            yield above, "body" if walker in above.body else "orelse"
        walker = above


def bindings_in(node: ast.AST) -> set[str]:
    """Return the variables that are bound within a statement."""
    return {target.id for target, _ in _definitions_in(node) if isinstance(target, ast.Name)}


def attribute_definitions(text: str, scope: ast.AST) -> list[Definition]:
    """Return a function's assignments to an attribute such as `self.name`, in source order."""
    return [
        definition
        for target, definition in _definitions_in(scope)
        if isinstance(target, ast.Attribute) and ast.unparse(target) == text
    ]


def attributes_set_in(scope: ast.AST, name: str) -> Iterator[tuple[ast.Attribute, Definition]]:
    """Return the assignments to attributes of that name on any object, in a function or a file."""
    for target, definition in _definitions_in(scope):
        if isinstance(target, ast.Attribute) and target.attr == name:
            yield target, definition


def names_set_in(scope: ast.AST, name: str) -> Iterator[Definition]:
    """Return the assignments to a variable in a function or a file, in source order."""
    for target, definition in _definitions_in(scope):
        if isinstance(target, ast.Name) and target.id == name:
            yield definition


def is_empty(node: ast.expr) -> bool:
    """Return whether an expression is an initial value: `[]`, `{}`, `list()`, None.

    Later assignments matter more.
    """
    match node:
        case ast.List(elts=[]) | ast.Dict(keys=[]) | ast.Tuple(elts=[]) | ast.Constant(value=None):
            return True
        case ast.Call(args=[], keywords=[], func=ast.Name(id="list" | "dict" | "set")):
            return True
        case ast.Call(args=[], func=ast.Name(id="deque") | ast.Attribute(attr="deque")):
            return True
        case ast.Call(func=ast.Name(id="defaultdict") | ast.Attribute(attr="defaultdict")):
            return True
    return False


def find_attribute(name: str, class_node: ast.ClassDef) -> Definition | None:
    """Return the assignment `self.name = ...` in a class.

    Of several, prefer a value other than None, then the one in `__init__`.
    """
    found = find_attributes(name, class_node)
    return (
        max(found, key=lambda each: (not _is_nothing(each[1].value), each[0]))[1] if found else None
    )


def _is_nothing(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def find_attributes(name: str, class_node: ast.ClassDef) -> list[tuple[bool, Definition]]:
    """Return all assignments `self.name = ...` in a class, and whether `__init__` makes them."""
    found: list[tuple[bool, Definition]] = []
    for method in class_node.body:
        if not isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for target, definition in _definitions_in(method):
            if (
                isinstance(target, ast.Attribute)
                and target.attr == name
                and isinstance(target.value, ast.Name)
            ):
                found.append((method.name in ("__init__", "setup"), definition))
    return found


def find_registration(name: str, class_node: ast.ClassDef) -> ast.expr | None:
    """Return the value in `self.register_buffer("name", value)` or `register_parameter`."""
    for node in ast.walk(class_node):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr.startswith("register_")
        ):
            named = node.args[0] if node.args else None
            if isinstance(named, ast.Constant) and named.value == name and len(node.args) > 1:
                return node.args[1]
    return None


def find_class(name: str, tree: ast.Module) -> ast.ClassDef | None:
    return next(
        (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name),
        None,
    )


def find_function(name: str, tree: ast.AST) -> FunctionNode | None:
    return next(
        (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
        ),
        None,
    )


def function_at(line: int, tree: ast.AST) -> FunctionNode | None:
    """Return the function that begins at a line, decorators included."""
    return next(
        (
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and line == min([node.lineno, *(each.lineno for each in node.decorator_list)])
        ),
        None,
    )


def returns_of(function: FunctionNode) -> list[ast.expr]:
    """Return the expressions a function returns or yields, in source order."""
    if isinstance(function, ast.Lambda):
        return [function.body]
    return [
        node.value
        for node in own_nodes(function)
        if isinstance(node, ast.Return | ast.Yield) and node.value is not None
    ]


def falling_through(function: FunctionNode) -> ast.stmt | None:
    """Return the statement after which a function can end without a return, if any."""
    return None if isinstance(function, ast.Lambda) else _last_before_end(function.body)


def _last_before_end(body: list[ast.stmt]) -> ast.stmt | None:
    last = body[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return None
    if isinstance(last, ast.With):
        return _last_before_end(last.body)
    if isinstance(last, ast.If):
        ends = [
            _last_before_end(last.body),
            *([_last_before_end(last.orelse)] if last.orelse else []),
        ]
        return next((end for end in ends if end is not None), None if last.orelse else last)
    return last


def name_in(filename: str, module: str, attribute: str) -> str | None:
    """Return how a file would write an attribute of a module that it imports.

    `nn.Parameter`, `torch.nn.Parameter` or `Parameter`, depending on the imports.
    """
    tree = tree_of(filename)
    parent, _, last = module.rpartition(".")
    ways = {f"{module}.{attribute}": "", module: f".{attribute}", parent: f".{last}.{attribute}"}
    for node in tree.body if tree is not None else ():
        inside = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for each in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            if (rest := ways.get(inside + each.name)) is not None:
                return (each.asname or each.name) + rest
    return None


def argument_for(
    call: ast.Call, function: FunctionNode, name: str, *, bound: bool
) -> ast.expr | None:
    """Return the expression that a call passes for a parameter; `bound` if `self` is implicit."""
    for keyword in call.keywords:
        if keyword.arg == name:
            return keyword.value
    names = parameter_names(function)[1 if bound else 0 :]
    if name in names and names.index(name) < len(call.args):
        argument = call.args[names.index(name)]
        if not any(isinstance(each, ast.Starred) for each in call.args[: names.index(name) + 1]):
            return argument
    return default_for(function, name)


def default_for(function: FunctionNode, name: str) -> ast.expr | None:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    with_default = positional[len(positional) - len(arguments.defaults) :]
    for argument, default in zip(with_default, arguments.defaults, strict=True):
        if argument.arg == name:
            return default
    for argument, keyword_default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == name:
            return keyword_default
    return None


def class_of_method(function: ast.AST) -> ast.ClassDef | None:
    owner = enclosing(function, ast.ClassDef, ast.FunctionDef, ast.Module)
    return owner if isinstance(owner, ast.ClassDef) else None
