"""Local fixes: clamp an operand to the range where the operation and its derivative are defined.

The same change is run on the replayed step and written into the source.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from whence.rules.source_operands import is_written, operand_nodes
from whence.source.edits import Edit, diff_of, in_parentheses, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.tape import Call


def is_same_line(one: Call, other: Call) -> bool:
    """Whether two calls come from the same expression, perhaps in two iterations of a loop."""
    return one is other or (
        one.site is not None and one.site == other.site and one.name == other.name
    )


@dataclass(frozen=True, slots=True)
class Remedy:
    """Clamp one operand: its position among the arguments, and the bounds."""

    place: int
    low: float | None = None
    high: float | None = None

    @property
    def clamp(self) -> str:
        bounds = [
            f"min={self.low!r}" if self.low is not None else "",
            f"max={self.high!r}" if self.high is not None else "",
        ]
        return f"clamp({', '.join(filter(None, bounds))})"

    def alter(self, call: Call) -> Callable[[Call, Any, Any], tuple[Any, Any]]:
        def change(each: Call, args: Any, kwargs: Any) -> tuple[Any, Any]:
            if (
                not is_same_line(each, call)
                or self.place >= len(args)
                or not isinstance(args[self.place], torch.Tensor)
            ):
                return args, kwargs
            clamped = args[self.place].clamp(self.low, self.high)
            return (*args[: self.place], clamped, *args[self.place + 1 :]), kwargs

        return change

    def patch(self, call: Call) -> str | None:
        return diff_of(self.edit(call))

    def edit(self, call: Call) -> Edit | None:
        """The clamp in the source, where the operand is an expression of its own."""
        site, nodes = call.site, operand_nodes(call)
        if (
            site is None
            or not is_written(call)
            or self.place >= len(nodes)
            or isinstance(nodes[self.place], ast.Starred)
        ):
            return None
        operand = nodes[self.place]
        text = f"{in_parentheses(site.filename, operand)}.{self.clamp}"
        return replace_node(site.filename, operand, text)

    def words(self, call: Call) -> str:
        bounds = [
            f"at least {self.low:g}" if self.low is not None else "",
            f"at most {self.high:g}" if self.high is not None else "",
        ]
        what = "the divisor" if "div" in call.name else f"the operand of {call.name}"
        return f"with {what} clamped to {' and '.join(filter(None, bounds))}"


def _is_whole(call: Call) -> bool:
    """Whether a power is defined for all values, so that a non-finite result has overflowed."""
    exponent = call.args[1] if len(call.args) > 1 else call.kwargs.get("exponent")
    return isinstance(exponent, int | float) and exponent >= 0 and float(exponent).is_integer()


def _is_all_negative(tensors: list[torch.Tensor]) -> bool:
    """Whether every operand is negative: the formula is wrong, and a clamp would hide that."""
    given = next((each for each in tensors if each.is_floating_point()), None)
    return given is not None and given.numel() > 1 and bool((given < 0).all())


def in_float32(call: Call) -> str | None:
    """A diff that adds `.float()` to the first operand."""
    site, nodes = call.site, operand_nodes(call)
    if site is None or not is_written(call) or not nodes or isinstance(nodes[0], ast.Starred):
        return None
    return diff_of(
        replace_node(site.filename, nodes[0], f"{in_parentheses(site.filename, nodes[0])}.float()")
    )


def nonzero_divisor(spot: Spot | None, *, counts: bool = False) -> str | None:
    """A diff that adds an epsilon to the divisor of a line, or keeps a count at 1 or more."""
    match spot.node() if spot is not None else None:
        case (
            ast.BinOp(op=ast.Div(), right=divisor) | ast.AugAssign(op=ast.Div(), value=divisor)
        ) if spot is not None:
            text = text_of(spot.filename, divisor)
            safe = (
                f"max({text}, 1)"
                if counts
                else f"({in_parentheses(spot.filename, divisor)} + 1e-8)"
            )
            return diff_of(replace_node(spot.filename, divisor, safe))
    return None


def remedy_for(call: Call, tensors: list[torch.Tensor]) -> Remedy | None:
    """The clamp that keeps an operation in the range where it and its derivative are defined."""
    name = call.name.strip("_")
    if name in ("log", "log2", "log10", "sqrt", "rsqrt") or (
        name in ("pow", "float_power") and not _is_whole(call)
    ):
        return Remedy(0, low=1e-12) if not _is_all_negative(tensors) else None
    if name in ("acos", "arccos", "asin", "arcsin", "atanh", "arctanh"):
        return Remedy(0, low=-1 + 1e-6, high=1 - 1e-6)
    if name in ("exp", "expm1", "sinh", "cosh"):
        return Remedy(0, high=30.0)
    if name == "log1p":
        return Remedy(0, low=-1 + 1e-6)
    if name in ("xlogy", "special_xlogy"):
        return Remedy(1, low=1e-12)
    if name in ("div", "truediv", "true_divide", "divide", "itruediv"):
        divisor = tensors[-1] if len(tensors) > 1 else None
        if divisor is not None and divisor.is_floating_point() and bool((divisor >= 0).all()):
            return Remedy(1, low=1e-8)
    return None
