"""Two sequences that go side by side, and what the program's lines do to one of them alone.

Read from the source of one function or module: from where two sequences are paired back to where they came to be together.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from whence.lineage.loops.histories import SEEDING, History, history_of
from whence.lineage.loops.nodes import DEEPEST, SCOPES, is_name, position
from whence.lineage.loops.orders import DROPPING, Change, Manner
from whence.source.definitions import Definition, FunctionNode, Kind, find_definition, own_nodes
from whence.source.text import enclosing, last_name, statement_of

OF_WEIGHTS = {
    "grad",
    "parameters",
    "named_parameters",
    "state_dict",
    "buffers",
    "children",
    "modules",
}


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
    if (
        one.root is None
        or other.root is None
        or one.scope is not other.scope
        or one.unknown
        or other.unknown
    ):
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
    elif len(one.changes) == len(other.changes) == 1 and _drawn_twice(
        one.changes[0], other.changes[0], one.scope
    ):
        later = max(one, other, key=lambda each: position(each.changes[0].node))
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
    before = all(
        position(each) < position(change.node) or not _same_function(each, change.node)
        for each in roots
    )
    statement = statement_of(change.node)
    conditional = statement is None or enclosing(statement, ast.If, ast.Try, ast.While, *SCOPES)
    return before and not isinstance(conditional, ast.If | ast.Try | ast.While)


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
    begin, end = sorted(position(each.drawn or each.node) for each in (one, other))
    between = (
        each
        for each in ast.walk(scope)
        if isinstance(each, ast.Call) and begin < position(each) < end
    )
    return not any(last_name(each.func) in SEEDING for each in between)


def _side_by_side(one: History, other: History) -> bool:
    """Whether the lines say that two sequences came to be together."""
    first, second = one.root, other.root
    if first is None or second is None:
        return False
    if one.as_long_as in other.names or other.as_long_as in one.names:
        return True
    if first.node is second.node:
        return (
            first.kind is Kind.PARAMETER
            or bool(first.path and second.path)
            or _is_filled(first, second, one, other)
        )
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
        if is_name(used, name):
            return True
        if not isinstance(used, ast.Name):
            continue
        before = find_definition(used.id, scope, root.node)
        if (
            before is not None
            and before.kind is Kind.ASSIGNED
            and _derives(before, name, scope, depth + 1)
        ):
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
    if not all(
        isinstance(each.value, ast.List) and not each.value.elts for each in (first, second)
    ):
        return False
    loops = [set(_filling(each.names[-1], each.scope)) for each in (one, other)]
    return bool(loops[0] & loops[1])


def _filling(name: str, scope: ast.AST) -> Iterator[int]:
    for node in own_nodes(scope):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "append"
        ):
            loop = enclosing(node, ast.For, *SCOPES)
            if is_name(node.func.value, name) and isinstance(loop, ast.For):
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
        return name in (
            "load",
            "loadtxt",
            "genfromtxt",
            "fromfile",
            "memmap",
        ) and name == last_name(other.func)
    if isinstance(one, ast.Subscript) and isinstance(other, ast.Subscript):
        return ast.unparse(one.value) == ast.unparse(other.value) and isinstance(
            one.value, ast.Name
        )
    return False


def _same_function(one: ast.AST, other: ast.AST) -> bool:
    around = [
        each if isinstance(each, FunctionNode) else enclosing(each, *SCOPES)
        for each in (one, other)
    ]
    return around[0] is around[1]
