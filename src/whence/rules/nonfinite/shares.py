"""Hand-written softmax, `exp(x) / exp(x).sum(dim)`, which can overflow."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import torch

from whence.rules.nonfinite.reasons import DIVISIONS
from whence.rules.nonfinite.remedies import is_same_line
from whence.rules.source_operands import is_written, operand_nodes
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.tape.replay import Plan
from whence.tape.tape import Call, Value

MOVES = frozenset({"unsqueeze", "view", "reshape", "__getitem__"})


@dataclass(frozen=True, slots=True)
class Shift:
    """Subtract the maximum along `dim` from the operand of an exp."""

    call: Call
    dim: int

    @property
    def words(self) -> str:
        return f"with the maximum of each row subtracted before {self.call.name}"

    def alter(self, each: Call, args: Any, kwargs: Any) -> tuple[Any, Any]:
        if not is_same_line(each, self.call) or not args or not isinstance(args[0], torch.Tensor):
            return args, kwargs
        return (args[0] - args[0].amax(dim=self.dim, keepdim=True), *args[1:]), kwargs

    @property
    def patch(self) -> str | None:
        site, nodes = self.call.site, operand_nodes(self.call)
        if (
            site is None
            or not is_written(self.call)
            or not nodes
            or not isinstance(nodes[0], ast.Name | ast.Attribute)
        ):
            return None
        text = in_parentheses(site.filename, nodes[0])
        shifted = f"{text} - {text}.amax(dim={self.dim}, keepdim=True)"
        is_method = not isinstance(call := site.node(), ast.Call) or nodes[0] not in call.args
        return diff_of(
            replace_node(site.filename, nodes[0], f"({shifted})" if is_method else shifted)
        )


def shift_of(call: Call, plan: Plan) -> Shift | None:
    """Return a shift if an exp is used only in its sum along one axis and divided by that sum."""
    powers = set(call.outputs)
    users = [each for each in plan.calls if powers.intersection(each.operands)]
    sums = [each for each in users if each.name == "sum"]
    shared = [each for each in users if each.name in DIVISIONS and len(each.args) == 2]
    dims = {_dim_of(each) for each in sums}
    if (
        call.name not in ("exp", "exp_")
        or not shared
        or len(users) != len(sums) + len(shared)
        or len(dims) != 1
    ):
        return None
    totals = {value for each in sums for value in each.outputs}
    dim = dims.pop()
    return (
        Shift(call, dim)
        if dim is not None and all(_is_total(each.args[1], totals) for each in shared)
        else None
    )


def _dim_of(call: Call) -> int | None:
    dim = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else None)
    return dim if type(dim) is int else None


def _is_total(thing: Any, totals: set[Value]) -> bool:
    while (
        isinstance(thing, Value)
        and thing not in totals
        and thing.call is not None
        and thing.call.name in MOVES
    ):
        thing = thing.call.operands[0]
    return isinstance(thing, Value) and thing in totals
