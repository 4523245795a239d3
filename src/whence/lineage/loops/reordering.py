"""Two sequences that go side by side, and what the program's lines do to one of them alone.

Read from the source of one function or module: from where two sequences are paired back to where they came to be together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from whence.source.definitions import (
    Definition,
    FunctionNode,
    Kind,
    argument_for,
    attribute_definitions,
    class_of_method,
    find_definition,
    own_nodes,
    parameter_names,
    returns_of,
)
from whence.source.text import enclosing, last_name, statement_of

DEEPEST = 12
LAST = (1 << 30, 0)
CONVERTING = {"from_numpy", "tensor", "as_tensor", "array", "asarray", "list", "tuple", "stack", "FloatTensor", "LongTensor",
              "Tensor", "ascontiguousarray", "deepcopy", "copy"}  # fmt: skip
CONVERTING_METHODS = {"float", "long", "int", "double", "astype", "to", "copy", "clone", "numpy", "tolist", "unsqueeze",
                      "contiguous", "type", "to_numpy"}  # fmt: skip
DRAWING = {"randperm", "permutation", "sample"}
SORTING = {"argsort", "lexsort"}
DROPPING = {"dropna", "drop_duplicates"}
PICKING = {"flatnonzero", "nonzero", "argwhere", "where"}
REORDERING = ("shuffle", "sort", "perm", "sample", "filter", "select", "drop", "unique", "order", "split", "choice")
SEEDING = {"seed", "manual_seed", "set_state", "setstate", "set_rng_state", "default_rng", "Random", "RandomState", "Generator"}  # fmt: skip


OF_WEIGHTS = {"grad", "parameters", "named_parameters", "state_dict", "buffers", "children", "modules"}


class Manner(Enum):
    RANDOM = auto()
    SORTED = auto()
    FILTERED = auto()


@dataclass(frozen=True, slots=True)
class Change:
    """A statement that puts a sequence in another order, or leaves some of it out."""

    manner: Manner
    by: str
    """What decides the order, as it is written, with the sequence's own name left out."""
    node: ast.AST
    drawn: ast.AST | None = None
    """Where the permutation comes from, if it has a name."""


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


@dataclass(frozen=True, slots=True)
class Apart:
    change: Change
    moved: str
    kept: str
    pairing: ast.AST
    twice: bool = False
    """The other was put in a random order, too, and in another one."""


def apart(inputs: ast.expr, labels: ast.expr, pairing: ast.AST, scope: ast.AST) -> Apart | None:
    """What was done to one of two sequences and not to the other, after both were there."""
    one, other = history_of(inputs, scope), history_of(labels, scope)
    are_parts = _until_they_meet(one, other)
    if one.root is None or other.root is None or one.scope is not other.scope or one.unknown or other.unknown:
        return None
    if not are_parts and (set(one.names) & set(other.names) or not _side_by_side(one, other)):
        return None
    if _are_weights(one.root, other.root):
        return None
    found, moved, kept, twice = None, one, other, False
    roots = one.root.node, other.root.node
    if one.changes and not other.changes:
        found = one.changes[-1]
    elif other.changes and not one.changes and other.changes[-1].manner is not Manner.RANDOM:
        found, moved, kept = other.changes[-1], other, one
    elif len(one.changes) == len(other.changes) == 1 and _drawn_twice(one.changes[0], other.changes[0], one.scope):
        later = max(one, other, key=lambda each: _position(each.changes[0].node))
        found, moved, kept, twice = later.changes[0], later, one if later is other else other, True
    if found is None or not _is_certain(found, one, other) or found.drawn in roots:
        # Where the permutation is what is to be told, it is a label itself.
        return None
    if found.by in DROPPING and not kept.is_cut:
        # It would be longer than the other: there were no gaps.
        return None
    return Apart(found, moved.names[-1], kept.names[-1], pairing, twice)


def _until_they_meet(one: History, other: History) -> bool:
    """Whether both are parts of one sequence: two columns of a table, or two elements of each of its pairs. Only what came after
    they were taken apart is theirs."""
    for mine in one.steps:
        for others in other.steps:
            if mine.name != others.name or mine.definition.node is not others.definition.node:
                continue
            if not mine.part or not others.part or mine.part == others.part:
                return False
            for history, step in ((one, mine), (other, others)):
                del history.changes[step.changes :]
                del history.names[max(1, history.steps.index(step)) :]
                history.root, history.unknown = step.definition, step.unknown
            other.scope = one.scope
            return True
    return False


def _is_certain(change: Change, one: History, other: History) -> bool:
    """Both were there before the change, and it is made on every way through the program."""
    roots = [each.root.node for each in (one, other) if each.root is not None]
    before = all(_position(each) < _position(change.node) or not _same_function(each, change.node) for each in roots)
    statement = statement_of(change.node)
    conditional = statement is None or enclosing(statement, ast.If, ast.Try, ast.While, *_SCOPES)
    return before and not isinstance(conditional, ast.If | ast.Try | ast.While)


def outside(inputs: ast.expr, labels: ast.expr, scope: ast.AST, call: ast.AST | None) -> list[ast.expr]:
    """What a call passes for two parameters that a function pairs as they are; nothing if it does not."""
    found: list[ast.expr] = []
    for each in (history_of(inputs, scope), history_of(labels, scope)):
        function = each.root.node if each.root is not None and each.root.kind is Kind.PARAMETER else None
        if function is not scope or not isinstance(function, FunctionNode) or each.changes or each.unknown:
            return []
        bound = class_of_method(function) is not None and parameter_names(function)[:1] == ["self"]
        given = argument_for(call, function, each.names[-1], bound=bound) if isinstance(call, ast.Call) else None
        found += [given] if given is not None else []
    return found if len(found) == 2 else []


def inside(inputs: ast.expr, labels: ast.expr, scope: ast.AST) -> tuple[ast.Call, list[tuple[int, ...]]] | None:
    """A call that gave both sequences, as they are, and which parts of its result they are."""
    roots = [each.root for each in (history_of(inputs, scope), history_of(labels, scope)) if not each.unknown]
    if len(roots) < 2 or any(each is None or not each.path for each in roots):
        return None
    found = [each for each in roots if each is not None]
    call = found[0].value
    return (call, [each.path for each in found]) if isinstance(call, ast.Call) and call is found[1].value else None


def returned(function: FunctionNode, path: tuple[int, ...]) -> ast.expr | None:
    """A part of what a function returns, if it returns in one place only."""
    results = returns_of(function)
    node = results[0] if len(results) == 1 else None
    for number in path:
        node = node.elts[number] if isinstance(node, ast.Tuple | ast.List) and number < len(node.elts) else None
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


def constructed(inputs: ast.expr, labels: ast.expr, scope: ast.AST) -> tuple[str, tuple[int, int]] | None:
    """A class whose objects pair two arguments of their constructor as they are: its name, and which arguments."""
    places: list[int] = []
    owner = class_of_method(scope)
    for each in (history_of(inputs, scope), history_of(labels, scope)):
        function = each.root.node if each.root is not None and each.root.kind is Kind.PARAMETER else None
        if not isinstance(function, ast.FunctionDef) or function.name != "__init__" or each.changes or each.unknown:
            return None
        places.append(parameter_names(function).index(each.names[-1]) - 1)
    return (owner.name, (places[0], places[1])) if owner is not None else None


def history_of(node: ast.expr, scope: ast.AST) -> History:
    history = History(scope)
    _follow(node, history, 0)
    return history


def _follow(node: ast.expr, history: History, depth: int) -> None:
    if depth > DEEPEST:
        history.unknown = True
        return
    inner = _converted(node)
    if inner is not None:
        _follow(inner, history, depth + 1)
    elif _is_variable(node):
        _follow_name(node, history, depth)
    elif isinstance(node, ast.Subscript) and _is_columns(node.slice):
        history.part = ast.unparse(node.slice)
        _follow(node.value, history, depth + 1)
    elif isinstance(node, ast.Subscript):
        change = _indexed(node, history)
        if change is not None:
            history.changes.append(change)
        history.is_cut |= _is_cut(node.slice)
        history.as_long_as = history.as_long_as or _length_in(node.slice)
        if change is None and not _is_cut(node.slice):
            history.unknown = True
        _follow(node.value, history, depth + 1)
    elif (taken := _taken_one_by_one(node)) is not None and (change := _indexed(taken, history)) is not None:
        history.changes.append(replace(change, node=node))
        _follow(taken.value, history, depth + 1)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
        source = node.generators[0]
        if source.ifs:
            history.changes.append(Change(Manner.FILTERED, " and ".join(map(ast.unparse, source.ifs)), node))
        history.part = f"{ast.unparse(node.elt)} for {ast.unparse(source.target)}"
        _follow(source.iter, history, depth + 1)
    elif isinstance(node, ast.Call) and (changed := _changed_by_call(node)) is not None:
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
    maker = _constructor_of(history.scope) if isinstance(node, ast.Attribute) and definition is None else None
    if maker is not None:
        # What an object is made with, as its constructor leaves it; or had it when it called this method.
        statement = _only_call_of(history.scope, maker)
        history.scope = maker
        definition = _definition_of(node, maker, statement)
    if isinstance(node, ast.Attribute) and (method := _set_by_method(node, definition, statement, history)) is not None:
        history.scope, statement = method, None
        definition = _definition_of(node, method, None)
    if definition is None and (module := _module_of(node)) is not history.scope and module is not None:
        # A variable of the module, as it is when all of the module has run.
        history.scope, statement = module, None
        definition = _definition_of(node, module, None)
    if definition is None or definition.kind is Kind.LOOP or history.root is not None:
        history.unknown = True
        return
    history.steps.append(Step(name, definition, len(history.changes), history.unknown, history.part))
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
    found = [each for each in (owner.body if owner is not None else ()) if isinstance(each, ast.FunctionDef)]
    return next((each for each in found if each.name == "__init__" and each is not scope), None)


def _split_alone(definition: Definition) -> ast.expr | None:
    """`train, test = train_test_split(x)`: what is split, in a random order, with nothing beside it."""
    match definition.value:
        case ast.Call(func=func, args=[whole]) if last_name(func) == "train_test_split" and definition.path:
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
    begin = _position(definition.node) if definition is not None and definition.node is not maker else (0, 0)
    end = _position(before) if before is not None else LAST
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    called = [_calls_own(each) for each in reversed(maker.body) if begin < _position(each) < end]
    return next(
        (methods[each] for each in called if each in methods and _definition_of(node, methods[each], None)), None
    )


def _leads_to_a_name(node: ast.expr) -> bool:
    """Whether an expression is a sequence that has a name, changed or converted."""
    for _ in range(DEEPEST):
        inner = _converted(node)
        if inner is not None:
            node = inner
        elif isinstance(node, ast.Subscript) and (
            _is_columns(node.slice) or not isinstance(node.slice, ast.Tuple | ast.Constant)
        ):
            node = node.value
        elif (taken := _taken_one_by_one(node)) is not None:
            node = taken.value
        elif isinstance(node, ast.ListComp | ast.GeneratorExp) and len(node.generators) == 1:
            node = node.generators[0].iter
        elif isinstance(node, ast.Call) and (changed := _changed_by_call(node)) is not None:
            node = changed[1]
        else:
            break
    return _is_variable(node)


def _reworked(value: ast.expr | None, name: str) -> ast.expr | None:
    """What a variable was that is worked on under its own name: `x = scale(x)`, `x = (x - mean) / std`."""
    while isinstance(value, ast.BinOp) or (value is not None and _converted(value) is not None):
        value = value.left if isinstance(value, ast.BinOp) else _converted(value)
    if isinstance(value, ast.Call) and _changed_by_call(value) is None and not _says_so(value):
        value = next((each for each in value.args if _is_name(each, name)), None)
    return value if value is not None and _is_name(value, name) else None


def _says_so(call: ast.Call) -> bool:
    """Whether the name of a function says that it changes an order."""
    return any(word in last_name(call.func).lower() for word in REORDERING)


def _is_variable(node: ast.expr) -> bool:
    """A name, or an attribute of `self`."""
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and _is_owner(node.value))


def _definition_of(node: ast.expr, scope: ast.AST, before: ast.AST | None) -> Definition | None:
    if isinstance(node, ast.Name):
        return find_definition(node.id, scope, before)
    end = _position(before) if before is not None else LAST
    found = [each for each in attribute_definitions(ast.unparse(node), scope) if _position(each.node) < end]
    return found[-1] if found else None


def _note_statements(name: str, definition: Definition, before: ast.AST | None, history: History) -> None:
    """What is done to a variable in place between its definition and its use."""
    begin, end = _position(definition.node), _position(before) if before is not None else LAST
    for node in own_nodes(history.scope):
        if not begin < _position(node) < end:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            call = node.value
            named = [each for each in call.args if _is_name(each, name)]
            owned = isinstance(call.func, ast.Attribute) and _is_name(call.func.value, name)
            if named and last_name(call.func) == "shuffle" and len(call.args) == 1:
                history.changes.append(Change(Manner.RANDOM, ast.unparse(call.func), node))
            elif owned and last_name(call.func) in ("sort", "reverse"):
                history.changes.append(Change(Manner.SORTED, last_name(call.func), node))
            elif (owned and last_name(call.func) not in ("append", "extend")) or (named and not _only_reads(call)):
                history.unknown = True
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.Delete):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            if any(isinstance(each, ast.Subscript) and _is_name(each.value, name) for each in targets):
                history.unknown = True


def _only_reads(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id in ("print", "len", "repr")


def _converted(node: ast.expr) -> ast.expr | None:
    """What a conversion converts."""
    if not isinstance(node, ast.Call):
        return None
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in CONVERTING_METHODS
        and not _is_module(node.func.value)
    ):
        return node.func.value
    if last_name(node.func) in CONVERTING and node.args:
        return node.args[0]
    return None


def _unconverted(node: ast.expr) -> ast.expr:
    inner = _converted(node)
    return _unconverted(inner) if inner is not None else node


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "numpy", "torch", "copy")


def _changed_by_call(node: ast.Call) -> tuple[Change, ast.expr] | None:
    name = last_name(node.func)
    if name in ("sorted", "reversed") and node.args and isinstance(node.func, ast.Name):
        return Change(Manner.SORTED, name, node), node.args[0]
    if name == "sort" and node.args and isinstance(node.func, ast.Attribute) and _is_module(node.func.value):
        return Change(Manner.SORTED, name, node), node.args[0]
    if name in ("permutation", "sample") and node.args and isinstance(node.args[0], ast.Name):
        return Change(Manner.RANDOM, ast.unparse(node.func), node), node.args[0]
    if name == "sample" and isinstance(node.func, ast.Attribute) and any(each.arg == "frac" for each in node.keywords):
        return Change(Manner.RANDOM, name, node), node.func.value
    if name == "filter" and len(node.args) == 2 and isinstance(node.func, ast.Name):
        return Change(Manner.FILTERED, ast.unparse(node.args[0]), node), node.args[1]
    if name in DROPPING and isinstance(node.func, ast.Attribute) and not _drops_columns(node):
        return Change(Manner.FILTERED, name, node), node.func.value
    return _changed_by_own(node)


def _drops_columns(call: ast.Call) -> bool:
    return any(
        each.arg == "axis" and ast.unparse(each.value) not in ("0", "'index'", "'rows'") for each in call.keywords
    )


def _changed_by_own(node: ast.Call) -> tuple[Change, ast.expr] | None:
    """A function of the same file that gives what it is given in an order of its own, or a part of it."""
    module = _module_of(node) if isinstance(node.func, ast.Name) else None
    known = [each for each in getattr(module, "body", ()) if isinstance(each, ast.FunctionDef)]
    function = next((each for each in known if each.name == last_name(node.func)), None)
    results = returns_of(function) if function is not None else []
    if function is None or len(results) != 1 or any(_seeds(each) for each in ast.walk(function)):
        return None
    history = (
        history_of(results[0], function) if enclosing(node, ast.FunctionDef) is not function else History(function)
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


def _is_columns(index: ast.expr) -> bool:
    """`frame[["height", "weight"]]`, `frame["height"]`, `frame[COLUMNS]`: all rows, and some columns."""
    if isinstance(index, ast.Name):
        scopes = (enclosing(index, ast.FunctionDef, ast.Module), _module_of(index))
        made = next((each for scope in scopes if scope and (each := find_definition(index.id, scope, None))), None)
        return made is not None and isinstance(made.value, ast.List) and not made.path and _is_columns(made.value)
    names = index.elts if isinstance(index, ast.List) else [index]
    return bool(names) and all(isinstance(each, ast.Constant) and isinstance(each.value, str) for each in names)


def _taken_one_by_one(node: ast.expr) -> ast.Subscript | None:
    """`[things[each] for each in order]` is `things[order]`."""
    match node:
        case ast.ListComp(
            elt=ast.Subscript(value=things, slice=ast.Name(id=taken)),
            generators=[ast.comprehension(target=ast.Name(id=each), iter=order, ifs=[])],
        ) if taken == each and not isinstance(order, ast.Call):
            return ast.copy_location(ast.Subscript(things, order, ast.Load()), node)
    return None


def _is_cut(index: ast.expr) -> bool:
    """A stretch of the sequence, or all of it and a part of each element."""
    if isinstance(index, ast.Tuple):
        return bool(index.elts) and (_is_cut(index.elts[0]) or _is_ellipsis(index.elts[0]))
    return isinstance(index, ast.Slice) and index.step is None


def _length_in(index: ast.expr) -> str:
    """`[: len(inputs)]`: what is made as long as the inputs goes with them."""
    match index:
        case ast.Slice(lower=None, upper=ast.Call(func=ast.Name(id="len"), args=[counted])):
            return ast.unparse(counted)
        case ast.Slice(lower=None, upper=ast.Subscript(value=ast.Attribute(value=counted, attr="shape"))):
            return ast.unparse(counted)
    return ""


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _indexed(node: ast.Subscript, history: History) -> Change | None:
    """A sequence that is taken in the order of a permutation, or by a mask."""
    by: ast.expr | None = node.slice
    drawn: ast.AST | None = None
    for _ in range(DEEPEST):
        if isinstance(by, ast.Subscript) and _is_cut(by.slice):
            by = by.value
        elif isinstance(by, ast.Name):
            definition = find_definition(by.id, history.scope, statement_of(by) or by)
            if definition is None or definition.path or definition.kind is not Kind.ASSIGNED:
                return None
            drawn, by = definition.node, definition.value
        else:
            break
    manner = _manner_of(by) if by is not None else None
    if manner is None:
        return None
    return Change(manner, ast.unparse(node.slice), node, drawn)


def _manner_of(index: ast.expr) -> Manner | None:
    if isinstance(index, ast.Call):
        name = last_name(index.func)
        if name in DRAWING:
            return Manner.RANDOM
        if name in SORTING:
            return Manner.SORTED
        if isinstance(index.func, ast.Attribute) and name in ("tolist", "numpy", "long", "copy"):
            return _manner_of(index.func.value)
        if name in PICKING and len(index.args) < 2:
            # With three arguments `where` gives no places, but values.
            return Manner.FILTERED
    match index:
        case ast.Compare() | ast.UnaryOp(op=ast.Invert()):
            return Manner.FILTERED
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr(), left=left, right=right):
            return _manner_of(left) or _manner_of(right)
        case ast.ListComp(generators=[ast.comprehension(ifs=[_, *_])]):
            return Manner.FILTERED
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant()):
            return _manner_of(call)
    return None


def _drawn_twice(one: Change, other: Change, scope: ast.AST) -> bool:
    """Two permutations that were drawn one after the other from one stream."""
    if one.manner is not Manner.RANDOM or other.manner is not Manner.RANDOM:
        return False
    if (one.drawn is not None or other.drawn is not None) and one.drawn is other.drawn:
        return False
    texts = [ast.unparse(each.drawn or each.node) for each in (one, other)]
    if any(word in text for text in texts for word in (*SEEDING, "random_state", "generator")):
        return False
    if isinstance(one.node, ast.Expr) != isinstance(other.node, ast.Expr) or (
        isinstance(one.node, ast.Expr) and one.by != other.by
    ):
        return False
    begin, end = sorted(_position(each.drawn or each.node) for each in (one, other))
    between = (each for each in ast.walk(scope) if isinstance(each, ast.Call) and begin < _position(each) < end)
    return not any(last_name(each.func) in SEEDING for each in between)


def _side_by_side(one: History, other: History) -> bool:
    """Whether the lines say that two sequences came to be together."""
    first, second = one.root, other.root
    if first is None or second is None:
        return False
    if one.as_long_as in other.names or other.as_long_as in one.names:
        return True
    if first.node is second.node:
        return first.kind is Kind.PARAMETER or bool(first.path and second.path) or _is_filled(first, second, one, other)
    if _is_filled(first, second, one, other):
        return True
    if _derives(first, other.names[-1], one.scope) or _derives(second, one.names[-1], one.scope):
        return True
    return _read_alike(first, second)


def _derives(root: Definition, name: str, scope: ast.AST, depth: int = 0) -> bool:
    """Whether a sequence was made from another: its length alone does not count."""
    if root.value is None or depth > DEEPEST // 2:
        return False
    for used in _used_in(root.value):
        if _is_name(used, name):
            return True
        if not isinstance(used, ast.Name):
            continue
        before = find_definition(used.id, scope, root.node)
        if before is not None and before.kind is Kind.ASSIGNED and _derives(before, name, scope, depth + 1):
            return True
    return False


def _used_in(node: ast.AST) -> Iterator[ast.Name | ast.Attribute]:
    if isinstance(node, ast.Call) and last_name(node.func) == "len":
        return
    if isinstance(node, ast.Attribute) and node.attr in ("shape", "dtype", "device"):
        return
    if isinstance(node, ast.Name | ast.Attribute):
        yield node
    for each in ast.iter_child_nodes(node):
        yield from _used_in(each)


def _is_filled(first: Definition, second: Definition, one: History, other: History) -> bool:
    """Two lists that one loop fills."""
    if not all(isinstance(each.value, ast.List) and not each.value.elts for each in (first, second)):
        return False
    loops = [set(_filling(each.names[-1], each.scope)) for each in (one, other)]
    return bool(loops[0] & loops[1])


def _filling(name: str, scope: ast.AST) -> Iterator[int]:
    for node in own_nodes(scope):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
            loop = enclosing(node, ast.For, *_SCOPES)
            if _is_name(node.func.value, name) and isinstance(loop, ast.For):
                yield id(loop)


def _are_weights(*roots: Definition) -> bool:
    """Weights and their gradients are no data."""
    calls = [each for root in roots if root.value is not None for each in ast.walk(root.value)]
    return any(isinstance(each, ast.Call) and last_name(each.func) in OF_WEIGHTS for each in calls)


def _read_alike(first: Definition, second: Definition) -> bool:
    """Two files that are read by the same function, or two columns of one table."""
    one, other = first.value, second.value
    if isinstance(one, ast.Call) and isinstance(other, ast.Call):
        name = last_name(one.func)
        return name in ("load", "loadtxt", "genfromtxt", "fromfile", "memmap") and name == last_name(other.func)
    if isinstance(one, ast.Subscript) and isinstance(other, ast.Subscript):
        return ast.unparse(one.value) == ast.unparse(other.value) and isinstance(one.value, ast.Name)
    return False


def pairings_in(
    scope: ast.AST, datasets: dict[str, tuple[int, int] | None]
) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """Where two sequences are put side by side: the expression, the first of them and the last. Of datasets, which arguments they are."""
    for node in own_nodes(scope):
        if isinstance(node, ast.Tuple) and len(node.elts) == 2:
            first, second = map(_unconverted, node.elts)
            one, other = without_common_index(first, second)
            if one is not first and _is_variable(one) and _is_variable(other):
                yield node, first, second
        if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
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
            node = definition.value if definition is not None and definition.kind is Kind.ASSIGNED else None
        elif isinstance(node, ast.Call) and node.args and _is_applied(node):
            node = node.args[0]
            if not isinstance(node, ast.Call):
                return node
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_model = _is_owner(node.func.value)
            node = node.func.value if not is_model else node.args[0] if node.args else None
            if isinstance(node, ast.Name) or (is_model and isinstance(node, ast.Subscript)):
                return node
        else:
            return None
    return None


def _is_applied(call: ast.Call) -> bool:
    """`model(x)`, `torch.relu(x)`: what it works on stands in brackets."""
    return not isinstance(call.func, ast.Attribute) or _is_module(call.func.value)


def _is_owner(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def attributes_of_self(names: list[str]) -> list[ast.expr]:
    return [ast.Attribute(ast.Name("self", ast.Load()), each, ast.Load()) for each in names]


def indexed_together(getter: ast.FunctionDef) -> list[str]:
    """The attributes of which `__getitem__` takes the element at the index that it is asked for."""
    asked = getter.args.args[1].arg if len(getter.args.args) > 1 else ""
    found = [
        node.value
        for node in ast.walk(getter)
        if isinstance(node, ast.Subscript)
        and _is_name(node.slice, asked)
        and isinstance(node.value, ast.Attribute)
        and _is_owner(node.value.value)
    ]
    return list(dict.fromkeys(each.attr for each in sorted(found, key=_position)))


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


def scopes_in(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (each for each in ast.walk(tree) if isinstance(each, FunctionNode) and not isinstance(each, ast.Lambda))


def _module_of(node: ast.AST) -> ast.AST | None:
    return enclosing(node, ast.Module)


def _same_function(one: ast.AST, other: ast.AST) -> bool:
    around = [each if isinstance(each, FunctionNode) else enclosing(each, *_SCOPES) for each in (one, other)]
    return around[0] is around[1]


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) == name


def _position(node: ast.AST) -> tuple[int, int]:
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
