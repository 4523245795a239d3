"""Rows fixed by a literal: a token expanded, or a tensor created, for one batch size."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from whence.lineage.properties import axis_source
from whence.rules.operations import LOSSES
from whence.source.definitions import Kind, find_definition
from whence.source.edits import diff_of, replace_node
from whence.source.operands import operands_of
from whence.source.text import function_node
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value, flatten

LONGEST_WAY = 20
# These take a repeat count, which equals the number of rows only for a single row.
REPEATS = ("repeat", "tile")
FROM_NUMBERS = ("tensor", "as_tensor")


@dataclass(frozen=True, slots=True)
class FixedRows:
    """The call that gave `value` a literal number of rows, and the operand that has the batch's."""

    call: Call
    value: Value
    other: Value
    failed: Call

    def patch(self) -> str | None:
        """Take the number of rows from the other operand, if it has a name at that point."""
        site, name = self.call.site, self._name_of_other()
        node = site.node() if site is not None else None
        sizes = _size_nodes(node, self.call) if isinstance(node, ast.Call) else []
        if (
            site is None
            or name is None
            or not sizes
            or _numbers(self.call)[0] != self.value.shape[0]
        ):
            return None
        return diff_of(replace_node(site.filename, sizes[0], f"{name}.size(0)"))

    def _name_of_other(self) -> str | None:
        here, there = self.failed.site, self.call.site
        made = there.node() if there is not None else None
        scope = function_node(there) if there is not None else None
        if (
            here is None
            or there is None
            or made is None
            or scope is None
            or here.f_code is not there.f_code
        ):
            return None
        nodes = [each for node in operands_of(here.node()) for each in _elements(node)]
        at = self.failed.operands.index(self.other)
        node = nodes[at] if len(nodes) == len(self.failed.operands) else None
        known = find_definition(node.id, scope, made) if isinstance(node, ast.Name) else None
        if known is None or (known.kind is Kind.ASSIGNED and _line(known.node) >= _line(made)):
            return None
        return node.id if isinstance(node, ast.Name) else None


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _elements(node: ast.expr) -> list[ast.expr]:
    return node.elts if isinstance(node, ast.List | ast.Tuple) else [node]


def _size_nodes(node: ast.Call, call: Call) -> list[ast.expr]:
    """The sizes in `x.expand(8, -1)`, `torch.zeros(8, 3)`, `torch.broadcast_to(x, (8, 3))`."""
    sizes = operands_of(node)[1:] if call.operands else node.args
    return _elements(sizes[0]) if sizes and not isinstance(sizes[0], ast.Starred) else []


def fixed_rows(failed: FailedCall) -> FixedRows | None:
    """Two operands whose rows now differ, where one's rows are an integer passed in this step."""
    earlier = failed.tape.earlier_at(failed.call)
    operands = failed.call.operands
    if failed.name in LOSSES or earlier is None or len(earlier.operands) != len(operands):
        return None
    before = dict(zip(map(id, operands), earlier.operands, strict=True))
    for value, other in permutations(operands, 2):
        if (
            not value.shape
            or len(value.shape) != len(other.shape)
            or value.shape[0] == other.shape[0]
        ):
            continue
        rows = value.shape[:1]
        if (
            not before[id(value)].shape[:1] == before[id(other)].shape[:1] == rows
            or other.shape[0] == 1
        ):
            continue
        for call in _deciding(value):
            if call.step == failed.call.step and call.phase != "data" and rows[0] in _numbers(call):
                return FixedRows(call, value, other, failed.call)
    return None


def _deciding(value: Value) -> Iterator[Call]:
    """The call that decided the number of rows of a value, if none of its operands did."""
    axis = -len(value.shape)
    for _ in range(LONGEST_WAY):
        call = value.call
        sources = axis_source(call, value, axis) if call is not None else None
        if call is None or sources is None or len(sources) > 1:
            return
        if not sources or (call.name in REPEATS and sources[0][0].shape[sources[0][1]] == 1):
            yield call
            return
        value, axis = sources[0]


def _numbers(call: Call) -> list[int]:
    """The integers passed to a call, which may be sizes of its result."""
    given = (call.args, call.kwargs) if call.name not in FROM_NUMBERS else ()
    return [each for each in flatten(given) if type(each) is int]
