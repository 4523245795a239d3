"""Blocks of a function: the loops around one line but not another, and the names bound there."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from whence.source.definitions import (
    FunctionNode,
    all_parameter_names,
    attribute_definitions,
    bindings_in,
    class_of_method,
    find_definition,
    names_set_in,
    own_nodes,
    parameter_names,
)
from whence.source.sites import DEEPEST_STACK, Site
from whence.source.text import enclosing, last_name, parent_of, statement_of, tree_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)
BLOCKS = (ast.With, ast.AsyncWith, *LOOPS)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
PASSING = frozenset({"enumerate", "tqdm"})
RETURNING_ITSELF = frozenset(
    {"to", "cuda", "cpu", "float", "double", "half", "train", "eval", "requires_grad_"}
)
"""Methods of modules."""

Stack = tuple[Site, ...]


def statements_around(node: ast.AST) -> list[ast.stmt]:
    """Return the statements around a node, outermost first, from its function's body to itself."""
    found: list[ast.stmt] = []
    walker: ast.AST | None = node
    while walker is not None and not isinstance(walker, SCOPES):
        if isinstance(walker, ast.stmt):
            found.insert(0, walker)
        walker = parent_of(walker)
    return found


def has_in_it(statement: ast.stmt, site: Site) -> bool:
    return statement.lineno <= site.f_lineno <= (statement.end_lineno or statement.lineno)


def parting(one: Stack, other: Stack) -> tuple[int, ast.stmt] | None:
    """Find where the call paths to two lines diverge.

    Returns the position in the first stack, and the statement there that leads to the first line
    and not to the second.
    """
    if DEEPEST_STACK in (len(one), len(other)):
        return None
    for number, (site, twin) in enumerate(zip(reversed(one), reversed(other), strict=False), 1):
        if site == twin:
            continue
        here, there = site.statement(), twin.statement()
        if site.f_code is not twin.f_code or here is None or there is None:
            return None
        shared = statements_around(there)
        apart = next((each for each in statements_around(here) if each not in shared), None)
        return (len(one) - number, apart) if apart is not None else None
    return None


def is_run_as_written(way: Stack, number: int) -> bool:
    """Return whether a line's code runs when its statement is reached.

    A lambda, or a generator that is stored, is run later by other code.
    """
    site = way[number]
    if not site.function.startswith("<") or site.function == "<module>":
        return True
    outer = way[number + 1] if number + 1 < len(way) else None
    return (
        site.function != "<lambda>" and outer is not None and outer.statement() is site.statement()
    )


def part_around(site: Site, name: str = "", without: Iterable[Site] = ()) -> ast.stmt | None:
    """Return the outermost loop or `with` around a line that does not rebind a name.

    It must contain none of the lines in `without`. If there is none, return the statement itself.
    """
    others = [each for each in without if each.filename == site.filename]
    statement = site.statement()
    found: ast.stmt | None = None
    for each in reversed(statements_around(statement) if statement is not None else []):
        if binds(each, name) or any(has_in_it(each, other) for other in others):
            break
        if found is None or isinstance(each, BLOCKS):
            found = each
    return found


def binds(node: ast.stmt, name: str) -> bool:
    """Return whether a statement rebinds a name, `model` or `self.model`."""
    return name.split(".")[0] in bound_by(node) or bool(
        attribute_definitions(name, ast.Module([node], []))
    )


def bound_by(node: ast.stmt) -> set[str]:
    """Return the variables that a statement binds, including loop targets."""
    return bindings_in(ast.Module([node], []))


def dotted(node: ast.AST | None) -> str | None:
    """Return a dotted name, `model` or `self.model`, that means the same on another line."""
    walker = node
    while isinstance(walker, ast.Attribute):
        walker = walker.value
    is_name = isinstance(walker, ast.Name) and isinstance(getattr(node, "ctx", None), ast.Load)
    return ast.unparse(node) if node is not None and is_name else None


def called_at(site: Site) -> str | None:
    """Return the name of the function that a line calls directly.

    None if the function is passed to something else that calls it.
    """
    node = site.node()
    name = dotted(node.func) if isinstance(node, ast.Call) else None
    if name is None or hasattr(builtins, name.split(".")[0]):
        return None
    scope = enclosing(node, *SCOPES) if node is not None else None
    for where in (scope, tree_of(site.filename)):
        known = (
            find_definition(name, where, node)
            if isinstance(where, FunctionNode | ast.Module)
            else None
        )
        if known is not None:
            is_other = isinstance(known.value, ast.Lambda) or (
                isinstance(known.value, ast.Call) and last_name(known.value.func) == "partial"
            )
            return None if is_other else name
    return name


def block_of(statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements of the block that contains a statement."""
    above = parent_of(statement)
    blocks = (
        [each for _, each in ast.iter_fields(above) if isinstance(each, list)]
        if above is not None
        else []
    )
    return next((each for each in blocks if statement in each), [])


def is_run_before(one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether one statement has always run when another one of its function runs.

    It is above the other, and under no condition of its own.
    """
    around = statements_around(other)
    walker: ast.AST | None = one
    while isinstance(walker, ast.stmt):
        if one.lineno < other.lineno and any(each in block_of(walker) for each in around):
            return True
        walker = above if isinstance(above := parent_of(walker), ast.With) else None
    return False


def holds_at(name: str, made: ast.stmt, statement: ast.stmt) -> bool:
    """Return whether a name, `opt` or `self.opt`, certainly holds the value from `made`."""
    home, scope = enclosing(made, *SCOPES), enclosing(statement, *SCOPES)
    if home is scope and scope is not None:
        return is_run_before(made, statement) and not _is_rebound(name, made, statement)
    is_in_constructor = (
        home is not None and home is constructor_of(scope) and parent_of(made) is home
    )
    return is_in_constructor and self_of(home) == self_of(scope) == name.split(".")[0] != name


def _is_rebound(name: str, made: ast.stmt, statement: ast.stmt) -> bool:
    """Return whether a name is deleted or rebound between two statements of a function."""
    scope = enclosing(statement, *SCOPES)
    for each in own_nodes(scope) if scope is not None else ():
        if (
            isinstance(each, ast.stmt)
            and (made.end_lineno or made.lineno) < each.lineno < statement.lineno
        ):
            deleted = each.targets if isinstance(each, ast.Delete) else []
            if binds(each, name) or any(ast.unparse(target) == name for target in deleted):
                return True
    return False


def is_known_before(name: str, statement: ast.stmt) -> bool:
    """Return whether a name, `loader` or `self.loader`, certainly has a value at a statement."""
    scope = enclosing(statement, *SCOPES)
    if isinstance(scope, ast.FunctionDef) and name in all_parameter_names(scope):
        return True
    homes = [each for each in (scope, constructor_of(scope)) if each is not None]
    known = [
        each
        for home in homes
        for each in (*attribute_definitions(name, home), *names_set_in(home, name))
    ]
    return any(
        (made := statement_of(each.node)) is not None and holds_at(name, made, statement)
        for each in known
    )


def constructor_of(method: ast.AST | None) -> ast.FunctionDef | None:
    """Return the `__init__` of the class that a method is in."""
    owner = class_of_method(method) if method is not None else None
    found = (
        each
        for each in (owner.body if owner is not None else ())
        if isinstance(each, ast.FunctionDef)
    )
    return next((each for each in found if each.name == "__init__"), None)


def self_of(method: ast.AST | None) -> str:
    """Return a method's name for its object, such as `self`; empty if it is no method."""
    if (
        not isinstance(method, ast.FunctionDef)
        or class_of_method(method) is None
        or method.decorator_list
    ):
        return ""
    return next(iter(parameter_names(method)), "")


def target_of(site: Site) -> tuple[str, ast.stmt] | None:
    """Return the name assigned at a line, `self.opt` in `self.opt = Adam()`, and the statement."""
    node: ast.AST | None = site.node()
    while isinstance(
        above := parent_of(node) if node is not None else None, ast.Attribute | ast.Call
    ):
        if isinstance(above, ast.Attribute) and above.attr not in RETURNING_ITSELF:
            return None
        if isinstance(above, ast.Call) and above.func is not node:
            return None
        node = above
    if not isinstance(above, ast.Assign) or len(above.targets) != 1 or above.value is not node:
        return None
    target = above.targets[0]
    return (ast.unparse(target), above) if isinstance(target, ast.Name | ast.Attribute) else None


def own_call(site: Site) -> bool:
    """Return whether a line calls another method of the same object: `self.train_epoch()`."""
    node = site.node()
    function = enclosing(node, *SCOPES) if node is not None else None
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name))):
            return bool(name) and name == self_of(function)
    return False


def names_in(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def is_used_between(name: str, one: ast.stmt, other: ast.stmt) -> bool:
    """Return whether a name may be read between two statements of a function, or in the second.

    A method of the same object may read `self.opt`; a function may read a global.
    """
    scope = enclosing(one, *SCOPES) or one
    between = range((one.end_lineno or one.lineno) + 1, (other.end_lineno or other.lineno) + 1)
    nodes = [
        each for each in ast.walk(scope) if isinstance(each, ast.expr) and each.lineno in between
    ]
    if any(
        ast.unparse(each) == name for each in nodes if isinstance(each, ast.Name | ast.Attribute)
    ):
        return True
    calls = [each for each in nodes if isinstance(each, ast.Call)]
    root, _, rest = name.partition(".")
    if rest:
        return any(_is_own(each, root) and not _is_unread(name, each, set()) for each in calls)
    functions = (each for each in ast.walk(scope) if isinstance(each, ast.FunctionDef))
    return bool(calls) and any(
        name in names_in(each) - set(all_parameter_names(each)) for each in functions
    )


def _is_own(call: ast.Call, owner: str) -> bool:
    """Return whether a call is `self.f()`, or passes `self` as an argument."""
    direct = (
        isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == owner
    )
    return direct or any(isinstance(each, ast.Name) and each.id == owner for each in call.args)


def _is_unread(name: str, call: ast.Call, seen: set[str]) -> bool:
    """Return whether a method of the same class certainly does not read `self.opt`.

    Methods that it calls are checked as well.
    """
    function = enclosing(call, *SCOPES)
    class_ = class_of_method(function) if function is not None else None
    root = name.partition(".")[0]
    methods = [
        each for each in (class_.body if class_ else ()) if isinstance(each, ast.FunctionDef)
    ]
    method = next((each for each in methods if each.name == last_name(call.func)), None)
    if (
        method is None
        or self_of(method) != root
        or any(names_in(each) & {root} for each in call.args)
    ):
        return False
    if method.name in seen:
        return True
    seen.add(method.name)
    attributes = {id(each.value) for each in ast.walk(method) if isinstance(each, ast.Attribute)}
    for each in ast.walk(method):
        if isinstance(each, ast.Name) and each.id == root and id(each) not in attributes:
            return False
        if isinstance(each, ast.Attribute) and ast.unparse(each) == name:
            return False
        if isinstance(each, ast.Call) and _is_own(each, root) and not _is_unread(name, each, seen):
            return False
    return True


def iterated(node: ast.expr) -> ast.expr:
    """Return what a loop iterates over: `loader` in `enumerate(tqdm(loader))`."""
    while isinstance(node, ast.Call) and last_name(node.func) in PASSING and node.args:
        node = node.args[0]
    return node
