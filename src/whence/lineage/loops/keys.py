"""Two sequences that go side by side, each made by going over keys: whether those are the same keys, and in the same order.

`orders_apart` runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from types import FrameType
from typing import Any

from whence.lineage.loops.histories import history_of
from whence.lineage.loops.orders import Manner
from whence.lineage.postmortem import evaluated
from whence.lineage.preparation import prepare_again
from whence.lineage.rerunning import StatementWatch
from whence.lineage.tables import is_column, is_table
from whence.source.definitions import is_empty, own_nodes
from whence.source.text import enclosing, last_name, statement_of

FEWEST = 8
MOST = 1_000_000
ENOUGH_WRONG = 0.2
COUNTING = ("range", "enumerate", "zip", "arange")
GATHERING = ("array", "asarray", "tensor", "as_tensor", "from_numpy", "stack", "list", "tuple", "FloatTensor", "LongTensor", "Tensor", "concatenate")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Course:
    """A sequence, the statement that makes it, and what is gone over there, one key for each element."""

    name: str
    filename: str
    statement: ast.stmt
    over: ast.expr

    @property
    def has_groups(self) -> bool:
        """Whether what is gone over has keys of its own, whatever its elements are."""
        calls = (each for each in ast.walk(self.over) if isinstance(each, ast.Call))
        return any(last_name(each.func) in ("groupby", "items", "values") for each in calls)


@dataclass(frozen=True, slots=True)
class OrdersApart:
    """Plain data, all but the number of the pair it is about: it comes from a child process."""

    pair: int
    ones: list[str]
    others: list[str]
    """The first keys of each."""
    wrong: int
    size: int


def course_of(sequence: ast.expr, scope: ast.AST, filename: str) -> Course | None:
    """How a sequence was made, one element for each key, that nothing was done to since."""
    history = history_of(sequence, scope)
    for step, following in zip_longest(history.steps, history.steps[1:]):
        value = _part(step.definition.value, step.definition.path)
        changes, unknown = len(history.changes), history.unknown
        if following is not None:
            changes, unknown = following.changes, following.unknown
        if value is None or changes or unknown:
            return None
        made = _unwrapped(value)
        if is_empty(value):
            return _course(
                step.name, _filled_over(step.name, history.scope), history.scope, filename
            )
        if isinstance(made, ast.ListComp | ast.GeneratorExp):
            source = made.generators[0]
            is_plain = len(made.generators) == 1 and not source.ifs
            return _course(step.name, source.iter if is_plain else None, history.scope, filename)
        if following is None and step.definition.path and isinstance(made, ast.Name):
            # `x, y = torch.tensor(rows), torch.tensor(labels)`.
            return course_of(made, history.scope, filename)
        if following is None:
            return _course(step.name, made, history.scope, filename)
    return None


def _part(value: ast.expr | None, path: tuple[int, ...]) -> ast.expr | None:
    for number in path:
        value = (
            value.elts[number]
            if isinstance(value, ast.Tuple | ast.List) and number < len(value.elts)
            else None
        )
    return value


def _course(name: str, over: ast.expr | None, scope: ast.AST, filename: str) -> Course | None:
    statement = statement_of(over) if over is not None else None
    if (
        over is None
        or statement is None
        or (isinstance(over, ast.Call) and last_name(over.func) in COUNTING)
    ):
        return None
    if any(each.manner is Manner.RANDOM for each in history_of(over, scope).changes):
        # Whoever mixes the keys means it: negatives, say, that are to be of another group.
        return None
    return Course(name, filename, statement, over)


def _unwrapped(value: ast.expr) -> ast.expr:
    """What an expression makes an array or a tensor of."""
    match value:
        case ast.Call(func=func, args=[first, *_]) if last_name(func) in GATHERING:
            return _unwrapped(first)
        case ast.Call(
            func=ast.Attribute(value=whole, attr="astype" | "float" | "long" | "to_numpy" | "copy")
        ):
            return _unwrapped(whole)
    return value


def _filled_over(name: str, scope: ast.AST) -> ast.expr | None:
    """`for key, group in groups: sizes.append(...)`: what the only loop goes over that fills a list, once in each turn."""
    loops = []
    for node in own_nodes(scope):
        match node:
            case ast.Call(func=ast.Attribute(value=filled, attr="append")) if (
                ast.unparse(filled) == name
            ):
                loop = enclosing(
                    node, ast.For, ast.If, ast.While, ast.Try, ast.FunctionDef, ast.Module
                )
                loops.append(loop if isinstance(loop, ast.For) else None)
    leaves = (ast.Continue, ast.Break)
    if (
        len(loops) != 1
        or loops[0] is None
        or any(isinstance(each, leaves) for each in ast.walk(loops[0]))
    ):
        return None
    return loops[0].iter


@dataclass(slots=True)
class _Orders:
    courses: list[Course]
    keys: dict[int, list[Any]] = field(default_factory=dict)
    """By the number of a course, as it was gone last."""

    def note(self, statement: ast.stmt, frame: FrameType) -> None:
        for number, course in enumerate(self.courses):
            if course.statement is statement:
                with suppress(Exception):
                    keys = list(
                        itertools.islice(
                            keys_of(evaluated(course.over, frame), has_groups=course.has_groups),
                            MOST,
                        )
                    )
                    self.keys[number] = keys


def orders_apart(pairs: list[tuple[Course, Course]], frames: list[FrameType]) -> OrdersApart | None:
    courses = [each for pair in pairs for each in pair]
    orders = _Orders(courses)
    wanted = {id(each.statement): (each.filename, each.statement) for each in courses}
    prepare_again(frames, StatementWatch(list(wanted.values()), orders.note))
    for number in range(len(pairs)):
        one, other = orders.keys.get(2 * number, []), orders.keys.get(2 * number + 1, [])
        wrong = sum(mine != theirs for mine, theirs in zip(one, other, strict=False))
        if (
            len(one) == len(other) >= FEWEST
            and _are_same(one, other)
            and wrong > ENOUGH_WRONG * len(one)
        ):
            return OrdersApart(number, _first(one), _first(other), wrong, len(one))
    return None


def _first(keys: Iterable[Any]) -> list[str]:
    return [
        repr(each.item() if hasattr(each, "item") else each) for each in itertools.islice(keys, 3)
    ]


def _are_same(one: list[Any], other: list[Any]) -> bool:
    return len(set(one)) == len(one) and set(one) == set(other)


def keys_of(thing: Any, *, has_groups: bool) -> Iterator[Any]:
    """One for each element that comes of going over something; nothing where its elements are no keys. A table that was made of groups
    has their keys as its index."""
    is_grouped = isinstance(thing, itertools.groupby) or type(thing).__name__.endswith("GroupBy")
    if is_grouped:
        yield from (each[0] for each in thing)
    elif isinstance(thing, KeysView | ValuesView | ItemsView) and hasattr(thing, "mapping"):
        yield from thing.mapping
    elif (is_table(thing) or is_column(thing)) and (has_groups or thing.index.name is not None):
        yield from thing.index
    elif is_column(thing) or isinstance(thing, dict | list | tuple) or hasattr(thing, "__array__"):
        yield from (
            each for each in thing if isinstance(each, str | int | tuple) or hasattr(each, "item")
        )
