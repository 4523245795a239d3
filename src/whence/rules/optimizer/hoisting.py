"""The edits of optimizer/recreated: build once what a function builds at each call."""

from __future__ import annotations

import ast
import builtins
import copy

from whence.source.blocks import (
    LOOPS,
    SCOPES,
    Stack,
    bound_by,
    constructor_of,
    dotted,
    is_used_between,
    names_in,
    self_of,
    statements_around,
    target_of,
)
from whence.source.definitions import (
    all_parameter_names,
    argument_for,
    attribute_definitions,
    bindings_in,
    class_of_method,
)
from whence.source.edits import diff_of, give_by_name
from whence.source.signatures import is_called_once, one_more_parameter
from whence.source.sites import Site
from whence.source.statements import line_before, move_after, remove_statement
from whence.source.text import enclosing, parent_of, statement_of, text_of


def built_by_the_caller(stack: Stack) -> str | None:
    """Build it in the caller, if there is only one, in a loop of the same file."""
    depth = _where_it_gets_its_name(stack)
    made = target_of(stack[depth]) if depth is not None else None
    if depth is None or made is None or depth + 1 >= len(stack):
        return None
    (name, statement), site, caller = made, stack[depth], stack[depth + 1]
    function, call = enclosing(statement, *SCOPES), caller.node()
    if (
        not isinstance(function, ast.FunctionDef)
        or not isinstance(call, ast.Call)
        or not name.isidentifier()
    ):
        return None
    if (
        caller.filename != site.filename
        or not is_called_once(function, call)
        or not _is_its_own(name, statement, function)
    ):
        return None
    value = _in_terms_of_the_caller(statement, function, call)
    loop = _loop_around(caller, names_in(value)) if value is not None else None
    if value is None or loop is None or name in _names_at(call):
        return None
    own = getattr(statement, "value", None)
    # Keep the original text if nothing in it changes.
    text = (
        text_of(site.filename, own)
        if own is not None and ast.dump(own) == ast.dump(value)
        else ast.unparse(value)
    )
    return diff_of(
        remove_statement(site.filename, statement),
        one_more_parameter(site.filename, function, name),
        give_by_name(site.filename, call, name, name),
        line_before(site.filename, loop, f"{name} = {text}"),
    )


def built_by_the_constructor(stack: Stack) -> str | None:
    """Move `self.opt = Adam(...)` to the end of __init__, if its inputs are fixed by then."""
    depth = kept_at(stack)
    made = target_of(stack[depth]) if depth is not None else None
    if depth is None or made is None:
        return None
    (name, statement), filename = made, stack[depth].filename
    method = enclosing(statement, *SCOPES)
    init, own = constructor_of(method), self_of(method)
    if (
        not isinstance(method, ast.FunctionDef)
        or init is None
        or method is init
        or own != self_of(init)
    ):
        return None
    used = {
        each
        for each in map(dotted, ast.walk(statement))
        if each is not None and each.startswith(f"{own}.")
    }
    used = {".".join(each.split(".")[:2]) for each in used} - {name}
    strange = names_in(statement) & ({*all_parameter_names(method), *bindings_in(method)} - {own})
    others = [
        one
        for each in _written(name, init)
        if (one := statement_of(each)) is not None and one is not statement
    ]
    if (
        strange
        or not name.startswith(f"{own}.")
        or not all(_is_none_yet(each, init) for each in others)
    ):
        return None
    if not all(_is_set_once(each, init) for each in used):
        return None
    if is_used_between(name, others[-1] if others else init.body[0], init.body[-1]):
        return None
    return diff_of(*move_after(filename, statement, init.body[-1]))


def kept_at(stack: Stack) -> int | None:
    """The depth in the stack where the optimizer becomes an attribute of an object."""
    depth = _where_it_gets_its_name(stack)
    made = target_of(stack[depth]) if depth is not None else None
    return depth if made is not None and "." in made[0] else None


def _is_set_once(name: str, init: ast.FunctionDef) -> bool:
    """Whether only the constructor sets an attribute, unconditionally."""
    written = _written(name, init)
    return bool(written) and all(statement_of(each) in init.body for each in written)


def _is_none_yet(statement: ast.stmt, init: ast.FunctionDef) -> bool:
    """Whether it is `self.opt = None` in a constructor."""
    value = getattr(statement, "value", None)
    return statement in init.body and isinstance(value, ast.Constant) and value.value is None


def _written(name: str, init: ast.FunctionDef) -> list[ast.AST]:
    owner = class_of_method(init)
    methods = [
        each
        for each in (owner.body if owner is not None else ())
        if isinstance(each, ast.FunctionDef)
    ]
    return [each.node for method in methods for each in attribute_definitions(name, method)]


def _where_it_gets_its_name(stack: Stack) -> int | None:
    """Skip functions that only build and return it."""
    for depth, site in enumerate(stack):
        if target_of(site) is not None:
            return depth
        if not isinstance(site.statement(), ast.Return):
            return None
    return None


def _is_its_own(name: str, statement: ast.stmt, function: ast.FunctionDef) -> bool:
    """Whether only this statement sets the name, and always."""
    others = [each for each in function.body if each is not statement]
    return (
        parent_of(statement) is function
        and name not in all_parameter_names(function)
        and not any(name in bound_by(each) for each in others)
    )


def _in_terms_of_the_caller(
    statement: ast.stmt, function: ast.FunctionDef, call: ast.Call
) -> ast.expr | None:
    """The assigned expression in the caller's names; None if it uses the function's variables."""
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        return None
    parameters, local = all_parameter_names(function), bindings_in(function)
    given: dict[str, ast.expr] = {}
    for each in names_in(value):
        argument = argument_for(call, function, each, bound=False) if each in parameters else None
        is_plain = isinstance(argument, ast.Constant) or dotted(argument) is not None
        if each in local or (each in parameters and not is_plain):
            return None
        if argument is not None:
            given[each] = argument
        elif each in _names_at(call) - _names_of_file(call):
            # This name means something else in the caller.
            return None
    renamed = _Renaming(given).visit(copy.deepcopy(value))
    return renamed if isinstance(renamed, ast.expr) else None


class _Renaming(ast.NodeTransformer):
    def __init__(self, given: dict[str, ast.expr]) -> None:
        self._given = given

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._given.get(node.id, node)


def _names_at(call: ast.Call) -> set[str]:
    """The variables of the function around a call."""
    scope = enclosing(call, *SCOPES)
    parameters = all_parameter_names(scope) if isinstance(scope, ast.FunctionDef) else []
    return {*parameters, *(bindings_in(scope) if scope is not None else ())}


def _names_of_file(call: ast.Call) -> set[str]:
    module = enclosing(call, ast.Module)
    return (
        {*vars(builtins), *bindings_in(module)}
        if enclosing(call, *SCOPES) is module and module is not None
        else set()
    )


def _loop_around(caller: Site, used: set[str]) -> ast.stmt | None:
    """The outermost loop around a call that does not rebind any of these names."""
    statement = caller.statement()
    found: ast.stmt | None = None
    for each in reversed(statements_around(statement) if statement is not None else []):
        if used & bound_by(each):
            break
        found = each if isinstance(each, LOOPS) else found
    return found
