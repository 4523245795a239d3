"""Shapes: the size of one axis, the number of axes, or all of them; and which operand decides it."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from typing import Any

from whence.lineage.properties.property import Property, before_change, called_name
from whence.tape.replay import is_weight
from whence.tape.tape import Call, Foreign, Value, flatten
from whence.tape.trial import Shape, try_shapes

KEEPS_SHAPE = frozenset({"astype", "copy", "clone", "float", "double", "long", "to", "contiguous", "detach", "cpu", "numpy", "tensor",
                         "as_tensor", "from_numpy", "asarray", "array", "ascontiguousarray", "list", "fit_transform", "transform",
                         "abs", "log", "exp", "sqrt", "clip", "Tensor", "FloatTensor", "LongTensor", "to_numpy", "sort_values",
                         "sort_index"})  # fmt: skip
ARITHMETIC = frozenset(
    {
        "add",
        "sub",
        "mul",
        "div",
        "__add__",
        "__sub__",
        "__mul__",
        "__radd__",
        "add_",
        "sub_",
        "randint",
    }
)
RANK_CHANGES = frozenset(
    {"view", "reshape", "squeeze", "unsqueeze", "flatten", "unflatten", "squeeze_", "unsqueeze_"}
)
# Calls in which a weight decides by itself how large the result is.
WEIGHTED = frozenset({"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "embedding",
                      "bilinear", "lstm", "gru", "rnn_tanh", "rnn_relu", "matmul", "__matmul__", "mm", "addmm"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class HasAxis(Property):
    """Axis `axis` (counted from the end, so that it survives stacking into batches) has `size` elements."""

    axis: int
    size: int

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        if (before := before_change(call, value)) is not None:
            return before, self
        source = axis_source(call, value, self.axis)
        source = _longest(source, self.size) if source is not None and len(source) > 1 else source
        if source is None or len(source) != 1 or _came_short(call):
            return None
        operand, axis = source[0]
        if operand.shape[axis] == 1 != value.shape[self.axis]:
            # Repeated or expanded: one element says nothing of how many there are to be.
            return None
        return operand, replace(self, axis=axis, size=operand.shape[axis])

    def holds(self, thing: Any) -> bool | None:
        shape = getattr(thing, "shape", None)
        if shape is None and isinstance(thing, list | tuple) and thing:
            return (
                (len(thing) == self.size)
                if self.axis == -1 and not hasattr(thing[0], "__len__")
                else self.holds(thing[0])
            )
        if not isinstance(shape, tuple):
            return None
        return len(shape) >= -self.axis and shape[self.axis] == self.size

    def is_set_by(self, node: ast.expr) -> bool:
        # Without values a size is known to stay only where nothing but the type or the place changes.
        if isinstance(node, ast.Call):
            return called_name(node) not in KEEPS_SHAPE
        return isinstance(node, ast.Subscript | ast.Compare)

    def describe(self) -> str:
        return f"{self.size} along axis {self.axis}"


@dataclass(frozen=True, slots=True)
class GotAxis(HasAxis):
    """The same for as long as it has this size and this place: a slice that shortens it, or a sum that moves it up, is its birth.

    The first axis, mostly that of the batch, may lose others behind it.
    """

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        carried = HasAxis.carrier(self, call, value)
        if carried is None or not isinstance(carried[1], HasAxis) or carried[1].size != self.size:
            return None
        operand, before = carried[0], carried[1].axis
        is_first = self.axis + len(value.shape) == 0 and before + len(operand.shape) == 0
        return carried if before == self.axis or is_first else None


@dataclass(frozen=True, slots=True)
class HasShape(Property):
    """The whole shape, as it is."""

    shape: Shape

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        if (before := before_change(call, value)) is not None:
            return before, self
        carriers = [each for each in call.operands if each.shape == self.shape]
        return (carriers[0], self) if carriers else None

    def holds(self, thing: Any) -> bool | None:
        shape = getattr(thing, "shape", None)
        return tuple(shape) == self.shape if isinstance(shape, tuple) else None

    def is_set_by(self, node: ast.expr) -> bool:
        return (isinstance(node, ast.Call) and called_name(node) not in KEEPS_SHAPE) or isinstance(
            node, ast.Subscript
        )

    def describe(self) -> str:
        return str(self.shape)


@dataclass(frozen=True, slots=True)
class HasRank(Property):
    """The number of axes of each sample."""

    rank: int

    def carrier(self, call: Call, _value: Value) -> tuple[Value, Property] | None:
        if call.name in RANK_CHANGES or not call.operands:
            return None
        return call.operands[0], self

    def is_set_by(self, node: ast.expr) -> bool:
        return called_name(node) in RANK_CHANGES | {
            "tensor",
            "as_tensor",
            "from_numpy",
            "Tensor",
            "FloatTensor",
            "LongTensor",
        }

    def describe(self) -> str:
        return f"{self.rank} axes"


def axis_source(call: Call, value: Value, axis: int) -> list[tuple[Value, int]] | None:
    """Which operand axes decide the size of one axis of a call's result, found by changing them one at a time.

    Axes are counted from the end. An empty list: none does, the call decides it (a literal, a weight, a creation).
    None: it cannot be known, as the call does not run without data.
    """
    if value not in call.results:
        return None
    number = call.results.index(value)
    plain = try_shapes(call)
    if not plain.ran or number >= len(plain.shapes()):
        return None
    operands = list(dict.fromkeys(call.operands))
    data = [each for each in operands if not is_weight(each)]
    found = _deciding_axes(call, data, number, axis)
    if not found and call.name not in WEIGHTED:
        # A slice of a table, a transposed matrix: there a weight is data.
        found = _deciding_axes(call, [each for each in operands if is_weight(each)], number, axis)
    return found


def _came_short(call: Call) -> bool:
    """A slice that asks for more than there is, of data as they were made: the last rows of a table."""
    if call.name != "__getitem__" or call.phase == "forward" or len(call.args) != 2:
        return False
    made = call.operands[0].call
    if made is not None and any(
        isinstance(each, Value | Foreign) for each in flatten((made.args, made.kwargs))
    ):
        return False
    given = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    sizes = call.operands[0].shape
    return any(
        isinstance(part, slice) and isinstance(part.stop, int) and part.stop > size
        for part, size in zip(given, sizes, strict=False)
    )


def _longest(source: list[tuple[Value, int]], size: int) -> list[tuple[Value, int]]:
    """Of things that are padded to the longest one, that one decides."""
    sizes = [operand.shape[axis] for operand, axis in source]
    is_padded = max(sizes) == size != sum(sizes) and math.prod(sizes) != size
    return [source[sizes.index(size)]] if is_padded else source


def _deciding_axes(
    call: Call, data: list[Value], number: int, axis: int
) -> list[tuple[Value, int]]:
    found: list[tuple[Value, int]] = []
    for operand in data:
        for position in range(len(operand.shape)):
            if _depends(call, {operand: position}, number, axis):
                found.append((operand, position - len(operand.shape)))
    if found:
        return found
    # Elementwise calls refuse a change of one operand alone: change the same axis of all of them.
    for operand in data:
        if len(operand.shape) >= -axis:
            together = {
                each: axis + len(each.shape)
                for each in dict.fromkeys(call.operands)
                if len(each.shape) >= -axis and each.shape[axis] == operand.shape[axis]
            }
            if _depends(call, together, number, axis):
                return [(operand, axis)]
    return []


def _depends(call: Call, positions: dict[Value, int], number: int, axis: int) -> bool:
    for factor, extra in ((1, 1), (2, 0), (4, 0)):
        shapes: dict[Value, Shape] = {
            value: tuple(
                size * factor + extra if at == position else size
                for at, size in enumerate(value.shape)
            )
            for value, position in positions.items()
        }
        outcome = try_shapes(call, shapes)
        if outcome.ran:
            before, shapes_after = call.results[number].shape, outcome.shapes()
            after = shapes_after[number] if number < len(shapes_after) else ()
            if len(after) >= -axis and after[axis] != before[axis]:
                return True
    return False
