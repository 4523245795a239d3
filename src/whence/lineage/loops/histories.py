"""How a sequence came to be what it is, read back from its use through the lines of a function, a constructor or a module."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from whence.lineage.loops.nodes import DEEPEST, LAST, is_name, is_variable, module_of, position
from whence.lineage.loops.orders import (
    Change,
    Manner,
    changed_by_call,
    converted,
    indexed,
    is_columns,
    is_cut,
    length_in,
    taken_one_by_one,
)
from whence.source.definitions import (
    Definition,
    Kind,
    argument_for,
    attribute_definitions,
    class_of_method,
    find_definition,
    own_nodes,
    returns_of,
)
from whence.source.text import enclosing, last_name, statement_of

REORDERING = (
    "shuffle",
    "sort",
    "perm",
    "sample",
    "filter",
    "select",
    "drop",
    "unique",
    "order",
    "split",
    "choice",
)
SEEDING = {"seed", "manual_seed", "set_state", "setstate", "set_rng_state", "default_rng", "Random", "RandomState", "Generator"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """A variable that a sequence was, on the way back, and what had been found by then."""

    name: str
    definition: Definition
    changes: int
    unknown: bool
    part: str
    """What was taken of each of its elements, or which of its columns."""


@dataclass(slots=True)
class History:
    """How a sequence came to be what it is, the last change first."""

    scope: ast.AST
    names: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    part: str = ""
    changes: list[Change] = field(default_factory=list)
    root: Definition | None = None
    unknown: bool = False
    """Something else was done to it, too."""
    is_cut: bool = False
    """Only a stretch of it is taken."""
    as_long_as: str = ""
    """As many of its elements are taken as that one has."""


def history_of(node: ast.expr, scope: ast.AST) -> History:
    history = History(scope)
    _follow(node, history, 0)
    return history


def _follow(node: ast.expr, history: History, depth: int) -> None:
    if depth > DEEPEST:
        history.unknown = True
        return
    inner = converted(node)
    if inner is not None:
        _follow(inner, history, depth + 1)
    elif is_variable(node):
        _follow_name(node, history, depth)
    elif isinstance(node, ast.Subscript) and is_columns(node.slice):
        history.part = ast.unparse(node.slice)
        _follow(node.value, history, depth + 1)
    elif isinstance(node, ast.Subscript):
        change = indexed(node, history.scope)
        if change is not None:
            history.changes.append(change)
        history.is_cut |= is_cut(node.slice)
        history.as_long_as = history.as_long_as or length_in(node.slice)
        if change is None and not is_cut(node.slice):
            history.unknown = True
        _follow(node.value, history, depth + 1)
    elif (taken := taken_one_by_one(node)) is not None and (
        change := indexed(taken, history.scope)
    ) is not None:
        history.changes.append(replace(change, node=node))
        _follow(taken.value, history, depth + 1)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        source = node.generators[0]
        if source.ifs:
            history.changes.append(
                Change(Manner.FILTERED, " and ".join(map(ast.unparse, source.ifs)), node)
            )
        history.part = f"{ast.unparse(node.elt)} for {ast.unparse(source.target)}"
        _follow(source.iter, history, depth + 1)
    elif isinstance(node, ast.Call) and (changed := _changed(node)) is not None:
        history.changes.append(changed[0])
        _follow(changed[1], history, depth + 1)
    elif isinstance(node, ast.BinOp) and not history.names:
        # `(x - mean) / std`: what is worked on stands in front.
        _follow(node.left, history, depth + 1)
    elif not history.names:
        history.unknown = True


def _follow_name(node: ast.expr, history: History, depth: int) -> None:
    name = ast.unparse(node)
    history.names.append(name)
    # A variable that is asked for and not written anywhere is meant as the function leaves it.
    statement: ast.AST | None = statement_of(node) or node if hasattr(node, "lineno") else None
    definition = _definition_of(node, history.scope, statement)
    maker = (
        _constructor_of(history.scope)
        if isinstance(node, ast.Attribute) and definition is None
        else None
    )
    if maker is not None:
        # What an object is made with, as its constructor leaves it; or had it when it called this method.
        statement = _only_call_of(history.scope, maker)
        history.scope = maker
        definition = _definition_of(node, maker, statement)
    if (
        isinstance(node, ast.Attribute)
        and (method := _set_by_method(node, definition, statement, history)) is not None
    ):
        history.scope, statement = method, None
        definition = _definition_of(node, method, None)
    if (
        definition is None
        and (module := module_of(node)) is not history.scope
        and module is not None
    ):
        # A variable of the module, as it is when all of the module has run.
        history.scope, statement = module, None
        definition = _definition_of(node, module, None)
    if definition is None or definition.kind is Kind.LOOP or history.root is not None:
        history.unknown = True
        return
    history.steps.append(
        Step(name, definition, len(history.changes), history.unknown, history.part)
    )
    _note_statements(name, definition, statement, history)
    value = definition.value if not definition.path else None
    if (whole := _split_alone(definition)) is not None:
        history.changes.append(Change(Manner.RANDOM, ast.unparse(whole), definition.node))
        _follow(whole, history, depth + 1)
        return
    before = value if value is not None and _leads_to_a_name(value) else _reworked(value, name)
    if before is None:
        history.root = definition
        return
    _follow(before, history, depth + 1)


def _constructor_of(scope: ast.AST) -> ast.FunctionDef | None:
    owner = class_of_method(scope)
    found = [
        each
        for each in (owner.body if owner is not None else ())
        if isinstance(each, ast.FunctionDef)
    ]
    return next((each for each in found if each.name == "__init__" and each is not scope), None)


def _split_alone(definition: Definition) -> ast.expr | None:
    """`train, test = train_test_split(x)`: what is split, in a random order, with nothing beside it."""
    match definition.value:
        case ast.Call(func=func, args=[whole]) if (
            last_name(func) == "train_test_split" and definition.path
        ):
            return whole
    return None


def _only_call_of(method: ast.AST, maker: ast.FunctionDef) -> ast.stmt | None:
    """The statement of a constructor that calls a method of the object, and does nothing else."""
    name = getattr(method, "name", "")
    return next((each for each in reversed(maker.body) if _calls_own(each) == name), None)


def _calls_own(statement: ast.stmt) -> str:
    """`self.prepare()`: the name of the method."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name))):
            return name
    return ""


def _set_by_method(
    node: ast.Attribute, definition: Definition | None, before: ast.AST | None, history: History
) -> ast.FunctionDef | None:
    """The method that a constructor has called last, of those that set an attribute anew."""
    owner, maker = class_of_method(history.scope), history.scope
    if owner is None or not isinstance(maker, ast.FunctionDef) or maker.name != "__init__":
        return None
    begin = (
        position(definition.node)
        if definition is not None and definition.node is not maker
        else (0, 0)
    )
    end = position(before) if before is not None else LAST
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    called = [_calls_own(each) for each in reversed(maker.body) if begin < position(each) < end]
    return next(
        (
            methods[each]
            for each in called
            if each in methods and _definition_of(node, methods[each], None)
        ),
        None,
    )


def _leads_to_a_name(node: ast.expr) -> bool:
    """Whether an expression is a sequence that has a name, changed or converted."""
    for _ in range(DEEPEST):
        inner = converted(node)
        if inner is not None:
            node = inner
        elif isinstance(node, ast.Subscript) and (
            is_columns(node.slice) or not isinstance(node.slice, ast.Tuple | ast.Constant)
        ):
            node = node.value
        elif (taken := taken_one_by_one(node)) is not None:
            node = taken.value
        elif isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
            node = node.generators[0].iter
        elif isinstance(node, ast.Call) and (changed := _changed(node)) is not None:
            node = changed[1]
        else:
            break
    return is_variable(node)


def _reworked(value: ast.expr | None, name: str) -> ast.expr | None:
    """What a variable was that is worked on under its own name: `x = scale(x)`, `x = (x - mean) / std`."""
    while isinstance(value, ast.BinOp) or (value is not None and converted(value) is not None):
        value = value.left if isinstance(value, ast.BinOp) else converted(value)
    if isinstance(value, ast.Call) and _changed(value) is None and not _says_so(value):
        value = next((each for each in value.args if is_name(each, name)), None)
    return value if value is not None and is_name(value, name) else None


def _says_so(call: ast.Call) -> bool:
    """Whether the name of a function says that it changes an order."""
    return any(word in last_name(call.func).lower() for word in REORDERING)


def _definition_of(node: ast.expr, scope: ast.AST, before: ast.AST | None) -> Definition | None:
    if isinstance(node, ast.Name):
        return find_definition(node.id, scope, before)
    end = position(before) if before is not None else LAST
    found = [
        each
        for each in attribute_definitions(ast.unparse(node), scope)
        if position(each.node) < end
    ]
    return found[-1] if found else None


def _note_statements(
    name: str, definition: Definition, before: ast.AST | None, history: History
) -> None:
    """What is done to a variable in place between its definition and its use."""
    begin, end = position(definition.node), position(before) if before is not None else LAST
    for node in own_nodes(history.scope):
        if not begin < position(node) < end:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            named = [each for each in call.args if is_name(each, name)]
            owned = isinstance(call.func, ast.Attribute) and is_name(call.func.value, name)
            if named and last_name(call.func) == "shuffle" and len(call.args) == 1:
                history.changes.append(Change(Manner.RANDOM, ast.unparse(call.func), node))
            elif owned and last_name(call.func) in ("sort", "reverse"):
                history.changes.append(Change(Manner.SORTED, last_name(call.func), node))
            elif (owned and last_name(call.func) not in ("append", "extend")) or (
                named and not _only_reads(call)
            ):
                history.unknown = True
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            if any(
                isinstance(each, ast.Subscript) and is_name(each.value, name) for each in targets
            ):
                history.unknown = True


def _only_reads(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("print", "len", "repr")


def _changed(node: ast.Call) -> tuple[Change, ast.expr] | None:
    return changed_by_call(node) or _changed_by_own(node)


def _changed_by_own(node: ast.Call) -> tuple[Change, ast.expr] | None:
    """A function of the same file that gives what it is given in an order of its own, or a part of it."""
    module = module_of(node) if isinstance(node.func, ast.Name) else None
    known = [each for each in getattr(module, "body", ()) if isinstance(each, ast.FunctionDef)]
    function = next((each for each in known if each.name == last_name(node.func)), None)
    results = returns_of(function) if function is not None else []
    if function is None or len(results) != 1 or any(_seeds(each) for each in ast.walk(function)):
        return None
    history = (
        history_of(results[0], function)
        if enclosing(node, ast.FunctionDef) is not function
        else History(function)
    )
    root = history.root
    if history.unknown or not history.changes or root is None or root.node is not function:
        return None
    given = argument_for(node, function, history.names[-1], bound=False)
    return (
        (replace(history.changes[-1], by=ast.unparse(node.func), node=node, drawn=None), given)
        if given is not None
        else None
    )


def _seeds(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) in SEEDING
