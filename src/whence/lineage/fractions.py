"""Real numbers that became whole ones outside of torch's casts: a list given to `torch.tensor(..., dtype=torch.long)`, `.astype(int)`,
`int(...)`, an element of an integer array. Whether anything was lost shows in what the line was given, when it runs again."""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, TypeGuard

import torch

from whence.lineage.births import UNINITIALISED
from whence.lineage.looking import is_array
from whence.lineage.postmortem import evaluated
from whence.lineage.properties import BLANKS, Property, called_name
from whence.lineage.rerunning import run_again
from whence.lineage.tables import is_table
from whence.lineage.trail import Trail
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.definitions import (
    attribute_definitions,
    find_definition,
    own_nodes,
    parameter_names,
)
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, parent_of, statement_at, statement_of, tree_of
from whence.tape.batches import BatchLeaf
from whence.tape.tape import Cut, Value

PATIENCE = 5.0
MOST_NUMBERS = 4096
LONGEST_WALK = 20
BUFFERS = BLANKS.keys() | UNINITIALISED | {"full", "full_like", "new_full"}
ROUNDS = frozenset(
    {"floor", "trunc", "fix", "round", "round_", "floor_", "trunc_", "rint", "ceil", "floor_divide"}
)


@dataclass(slots=True)
class Suspect:
    """A statement that may cut, and the call in it; or none where it writes into something that has whole numbers only."""

    spot: Spot
    statement: ast.stmt
    call: ast.Call | None
    made: Spot | None = None
    """Where what is written into has its type from: that is the line to be changed."""
    columns: frozenset[str] = frozenset()
    """Words on the trail: of a table, only columns that are called so are meant."""
    cut: Cut = field(default_factory=Cut)

    def look(self, frame: FrameType) -> None:
        """About to run: what is it given, and is what it makes of it the same without fractions?"""
        if self.cut.seen >= MOST_NUMBERS:
            return
        if self.call is None:
            if _has_whole_numbers_only(self.statement, frame):
                self.cut.count(_numbers(evaluated(self.statement.value, frame)))  # type: ignore[attr-defined]
            return
        made = _numbers(self._meant(evaluated(self.call, frame)))
        for given in _given(self.call):
            numbers = _numbers(self._meant(evaluated(given, frame)))
            if made and [math.trunc(each) for each in numbers if math.isfinite(each)] == made:
                self.cut.count(numbers)
                return

    def _meant(self, thing: Any) -> Any:
        if not is_table(thing):
            return thing
        return [thing[name] for name in thing.columns if name in self.columns]


def cut_on(
    trail: Trail, leaf: BatchLeaf | None, frames: list[FrameType]
) -> tuple[Suspect, Cut] | None:
    """The line on a trail of whole numbers that was given fractions, nearest to where they are used, and what it lost."""
    suspects = list(_suspects(trail))

    def ask() -> list[Cut]:
        def seen(statement: ast.stmt, frame: FrameType) -> None:
            for each in suspects:
                if each.statement is statement:
                    with suppress(Exception):
                        each.look(frame)

        with suppress(Exception):
            run_again(
                [(each.spot.filename, each.statement) for each in suspects], seen, leaf, frames
            )
        return [each.cut for each in suspects]

    try:
        cuts = run_in_child(ask, PATIENCE, need=Need.PREPARATION) if suspects else []
    except NotPossible:
        return None
    return next(((each, cut) for each, cut in zip(suspects, cuts, strict=False) if cut.lost), None)


def cut_seen(trail: Trail, cuts: Mapping[Site, Cut]) -> tuple[Suspect, Cut] | None:
    """The line on a trail that was seen to write fractions into whole numbers."""
    lost = {(site.filename, site.f_lineno): cut for site, cut in cuts.items() if cut.lost}
    for hop in dict.fromkeys(reversed(trail.hops)):
        filename = os.path.abspath(hop.file)
        statement = statement_at(filename, hop.line) if (filename, hop.line) in lost else None
        if statement is not None and _is_written_to(statement):
            return _writing(statement, filename), lost[filename, hop.line]
    return None


def leaf_behind(value: Value, prop: Property) -> BatchLeaf | None:
    """The tensor of a batch that numbers with a property were taken from."""
    for _ in range(LONGEST_WALK):
        if isinstance(value.leaf, BatchLeaf):
            return value.leaf
        carried = prop.carrier(value.call, value) if value.call is not None else None
        if carried is None:
            return None
        value, prop = carried
    return None


def _suspects(trail: Trail) -> Iterator[Suspect]:
    """From the symptom back: what is called or written on the way, what is written into what was made at the birth, the birth itself."""
    words = frozenset(_words_on(trail))
    for hop in dict.fromkeys(reversed(trail.hops)):
        filename = os.path.abspath(hop.file)
        statement = statement_at(filename, hop.line)
        if statement is None:
            continue
        if _is_written_to(statement):
            yield _writing(statement, filename)
        whole = Spot.of_node(filename, statement).code == hop.code
        for each in ast.walk(statement):
            if isinstance(each, ast.Call) and (
                whole or Spot.of_node(filename, each).code == hop.code
            ):
                yield from (_writing(write, filename) for write in _writes_within(each, filename))
                yield Suspect(Spot.of_node(filename, each), statement, each, columns=words)
        if isinstance(statement, ast.Assign) and called_name(statement.value) in BUFFERS:
            yield from (_writing(write, filename) for write in _writes_into(statement))
    node = trail.spot.node() if trail.spot is not None else None
    born = statement_of(node) if node is not None else None
    if trail.spot is None or born is None:
        return
    filename = trail.spot.filename
    yield from (_writing(write, filename) for write in _writes_into(born))
    while node is not None and node is not born and not isinstance(node, ast.Call):
        node = parent_of(node)
    if isinstance(node, ast.Call):
        yield Suspect(Spot.of_node(trail.spot.filename, node), born, node)


def _words_on(trail: Trail) -> Iterator[str]:
    """`homes["price"]`: the columns that are taken on the way, among other words."""
    for hop in trail.hops:
        statement = statement_at(os.path.abspath(hop.file), hop.line)
        nodes = ast.walk(statement) if statement is not None else ()
        yield from (
            each.value
            for each in nodes
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        )


def _writing(write: ast.stmt, filename: str) -> Suspect:
    return Suspect(Spot.of_node(filename, write), write, None, _buffer(write, filename))


def _writes_within(call: ast.Call, filename: str) -> Iterator[ast.stmt]:
    """`ages[:] = ...` in a function of the same file that is given an array and hands it back."""
    tree = tree_of(filename) if isinstance(call.func, ast.Name) else None
    for function in ast.walk(tree) if tree is not None else ():
        if isinstance(function, ast.FunctionDef) and function.name == last_name(call.func):
            names = set(parameter_names(function))
            yield from (each for each in own_nodes(function) if _is_write(each, names))


def _is_write(node: ast.AST, names: set[str]) -> TypeGuard[ast.Assign]:
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(
        isinstance(each, ast.Subscript) and ast.unparse(each.value) in names for each in targets
    )


def _is_written_to(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and any(
        isinstance(each, ast.Subscript) for each in statement.targets
    )


def _buffer(write: ast.stmt, filename: str) -> Spot | None:
    """Where the array that is written into was made: `np.zeros_like(counts)`."""
    target = write.targets[0] if isinstance(write, ast.Assign) else None
    scope = enclosing(write, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
    held = target.value if isinstance(target, ast.Subscript) else None
    if scope is None:
        return None
    made = find_definition(held.id, scope, write) if isinstance(held, ast.Name) else None
    if isinstance(held, ast.Attribute):
        made = next(iter(attribute_definitions(ast.unparse(held), scope)), None)
    value = made.value if made is not None and not made.path else None
    return (
        Spot.of_node(filename, value)
        if value is not None and called_name(value) in BUFFERS
        else None
    )


def _writes_into(made: ast.stmt) -> Iterator[ast.stmt]:
    """`y[i] = ...` in the function that has `y = np.zeros(n, dtype=int)`."""
    scope = enclosing(made, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
    names = {ast.unparse(each) for each in made.targets} if isinstance(made, ast.Assign) else set()
    yield from (
        each for each in (own_nodes(scope) if scope is not None else ()) if _is_write(each, names)
    )


def _has_whole_numbers_only(write: ast.stmt, frame: FrameType) -> bool:
    """Whether what is written into is of an integer type: a dict takes whatever it is given, and so does a table."""
    targets = write.targets if isinstance(write, ast.Assign) else []
    held = [evaluated(each.value, frame) for each in targets if isinstance(each, ast.Subscript)]
    return any(
        not each.is_floating_point()
        if isinstance(each, torch.Tensor)
        else is_array(each) and each.dtype.kind in "iu"
        for each in held
    )


def _given(call: ast.Call) -> Iterator[ast.expr]:
    """What a cast may be given: before the dot, or as its first argument. Who rounds has said so."""
    if last_name(call.func) in ROUNDS:
        return
    if last_name(call.func) in BUFFERS:
        # The first gives it a size, and none of its numbers.
        yield from call.args[1:2]
    else:
        yield from [call.func.value] if isinstance(call.func, ast.Attribute) else []
        yield from call.args[:1]
    yield from (
        each.value for each in call.keywords if each.arg in ("data", "object", "fill_value")
    )


def _numbers(thing: Any) -> list[float]:
    """The numbers in a tensor, an array, a column or nested lists."""
    if isinstance(thing, torch.Tensor):
        return (
            []
            if thing.is_meta or thing.is_complex()
            else thing.detach().reshape(-1)[:MOST_NUMBERS].tolist()
        )
    if hasattr(thing, "tolist"):
        thing = thing.tolist()
    if isinstance(thing, int | float) and not isinstance(thing, bool):
        return [thing]
    if not isinstance(thing, list | tuple):
        return []
    found: list[float] = []
    for each in thing:
        found += _numbers(each)
        if len(found) > MOST_NUMBERS:
            break
    return found[:MOST_NUMBERS]
