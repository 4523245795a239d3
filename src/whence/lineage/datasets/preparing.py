"""How two datasets of one kind prepare their samples: the callable that one has and the other has not, and where it is made."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from whence.source.definitions import find_definition, returns_of
from whence.source.files import program_files
from whence.source.sites import Site, is_library, variables
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, statement_at, tree_of

DEEPEST = 4
SAMPLES = 8
MOST_LINES = 2_000


def other_preparation(trained: Any, evaluated: Any, frames: list[FrameType]) -> Spot | None:
    """Where the transform of an evaluated dataset is made, if it is not that of the one trained on."""
    one, other = innermost(trained), innermost(evaluated)
    if one is other or type(one) is not type(other) or not hasattr(other, "__dict__"):
        return None
    for name, thing in vars(other).items():
        if callable(thing) and vars(one).get(name) is not thing and callable(vars(one).get(name)):
            return next(_makers(thing, frames), None)
    return None


def where_they_part(trained: Any, evaluated: Any) -> Spot | None:
    """The condition that sends the samples of two datasets of one kind different ways: `if self.training`. Runs the program's code: only
    ever in a child process."""
    one, other = innermost(trained), innermost(evaluated)
    if one is other or type(one) is not type(other):
        return None
    mine, others = _lines_of(one), _lines_of(other)
    for filename, line in mine:
        statement = statement_at(filename, line)
        if (
            isinstance(statement, ast.If)
            and statement.lineno == line
            and (filename, line) in others
        ):
            within = {
                (filename, each)
                for each in range(
                    statement.body[0].lineno, (statement.body[-1].end_lineno or 0) + 1
                )
            }
            if bool(within & mine.keys()) != bool(within & others.keys()):
                return Spot.of_node(filename, statement.test)
    return None


def _lines_of(dataset: Any) -> dict[tuple[str, int], None]:
    """The lines that make some samples, in the order in which they ran first."""
    lines: dict[tuple[str, int], None] = {}

    def note(frame: FrameType, event: str, _value: Any) -> Any:
        filename = frame.f_code.co_filename
        if is_library(filename) or len(lines) > MOST_LINES:
            return None
        if event == "line":
            lines[filename, frame.f_lineno] = None
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        for index in range(min(SAMPLES, len(dataset))):
            dataset[index]
    finally:
        sys.settrace(before)
    return lines


def prepared_alone(spot: Spot | None) -> Spot | None:
    """What a function of the program's gives that is called in one place only: in the expression that makes these data."""
    node = spot.node() if spot is not None else None
    trees = {
        filename: tree for filename in program_files() if (tree := tree_of(filename)) is not None
    }
    nodes = [(filename, each) for filename, tree in trees.items() for each in ast.walk(tree)]
    for call in ast.walk(node) if node is not None else ():
        name = last_name(call.func) if isinstance(call, ast.Call) else ""
        calls = [
            each for _, each in nodes if isinstance(each, ast.Call) and last_name(each.func) == name
        ]
        made = [
            (file, each)
            for file, each in nodes
            if isinstance(each, ast.FunctionDef) and each.name == name
        ]
        results = returns_of(made[0][1]) if len(calls) == len(made) == 1 and name else []
        if len(results) == 1 and isinstance(results[0], ast.BinOp | ast.Call):
            return Spot.of_node(made[0][0], results[0])
    return None


def has_no_code(dataset: Any) -> bool:
    """Whether a dataset only gives what it was made with: a list, a TensorDataset."""
    return type(innermost(dataset)).__module__.startswith(("torch.", "builtins", "numpy"))


def innermost(dataset: Any) -> Any:
    """The dataset that subsets stand for."""
    for _ in range(DEEPEST):
        dataset = getattr(dataset, "dataset", dataset)
    return dataset


def _makers(thing: Any, frames: list[FrameType]) -> Iterator[Spot]:
    """Expressions that make an object: what a variable is set to that holds it, alone or in a dict."""
    for frame in frames:
        if is_library(frame.f_code.co_filename):
            continue
        tree, scope = tree_of(frame.f_code.co_filename), function_node(Site.of(frame))
        for names, where in ((variables(frame), scope), (frame.f_globals, tree)):
            for name, value in list(names.items()) if where is not None else ():
                definition = (
                    find_definition(name, where, None)
                    if _holds(value, thing) and where is not None
                    else None
                )
                made = _part(definition.value, value, thing) if definition is not None else None
                if made is not None:
                    yield Spot.of_node(frame.f_code.co_filename, made)


def _holds(value: Any, thing: Any) -> bool:
    return value is thing or (
        isinstance(value, dict) and any(each is thing for each in value.values())
    )


def _part(node: ast.expr | None, value: Any, thing: Any) -> ast.expr | None:
    if value is thing or not isinstance(node, ast.Dict):
        return node if value is thing else None
    for key, given in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and value.get(key.value) is thing:
            return given
    return None
