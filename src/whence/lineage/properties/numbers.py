"""Numbers: one element, those that are not finite, many together, or a plain one of Python's."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch

from whence.lineage.births import Contents
from whence.lineage.looking import is_array
from whence.lineage.properties.axes import ARITHMETIC, KEEPS_SHAPE
from whence.lineage.properties.property import Property, before_change, called_name
from whence.lineage.tables import is_column, is_table, shown_in
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, Tape, Value, flatten

LARGEST_SEARCH = 50_000_000
MOST_PLACES = 10_000
# Of tables: what leaves each number that is left in its column.
PICKS_ROWS = frozenset({"to_numpy", "reset_index", "set_index", "sort_values", "sort_index", "sample", "head", "tail", "drop", "dropna",
                        "drop_duplicates", "query", "filter", "copy", "astype", "infer_objects", "convert_dtypes", "tolist"})  # fmt: skip
PASSES_VALUES = KEEPS_SHAPE - {"abs", "log", "exp", "sqrt", "clip", "fit_transform", "transform"} | {
    "stack", "concatenate", "cat", "reshape", "view", "ravel", "squeeze", "pad_sequence", "split", "array_split",
    "column_stack", "vstack", "hstack", "dstack", "transpose", "float32", "float64", "Variable"} | PICKS_ROWS  # fmt: skip
WRITES = frozenset(
    {"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "masked_scatter_"}
)
BLANKS = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}
ACCESSORS = frozenset({"cat", "dt", "str"})
ONLY_MOVES = frozenset({"float", "double", "to", "cpu", "type", "contiguous", "clone", "detach", "reshape", "view", "flatten", "squeeze",
                        "unsqueeze", "permute", "transpose", "t", "T", "__getitem__", "pin_memory"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class HasElement(Property):
    """One element is `value`."""

    singles_out: ClassVar[bool] = True
    value: float
    index: tuple[int, ...] = ()
    named: str = ""
    """The column, where it is one of a table."""

    def of_column(self, name: str) -> Property:
        return replace(self, named=name)

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        unknown: Value | None = None
        if call.changed and any(
            type(each) in (int, float) and each == self.value for each in flatten(call.args[1:])
        ):
            # Written by this call: `mask[border] = 255`.
            return None
        written = [
            each for each in call.operands if each not in call.changed and each.dtype == value.dtype
        ]
        if (
            call.name in WRITES
            and written
            and written[-1].tensor is None
            and self._is_blank(call.changed)
        ):
            return written[-1], replace(self, index=())
        if (fraction := self._before_cast(call, value)) is not None:
            return fraction
        # In a table of which number becomes which, one that stays what it is comes from the index.
        operands = call.operands[::-1] if call.name == "__getitem__" else call.operands
        for operand in operands:
            # What a call has changed in place is not there any more as it was.
            tensor = operand.tensor if operand not in call.changed else None
            if tensor is None or tensor.device.type == "meta":
                unknown = unknown or operand
            elif self.holds(tensor):
                return operand, self._moved(operand, value)
        return (
            (unknown, self._moved(unknown, value))
            if unknown is not None and call.name not in ARITHMETIC
            else None
        )

    def _is_blank(self, changed: tuple[Value, ...]) -> bool:
        """Whether what was written to began as something else throughout: somebody has written this number."""
        value = changed[0] if changed else None
        while value is not None and value.call is not None and value.call.changed:
            value = before_change(value.call, value)
        made = value.call if value is not None else None
        return made is not None and BLANKS.get(made.name, self.value) != self.value

    def _before_cast(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        """A number with a fraction, that a cast to whole numbers cut off."""
        operand = call.operands[0] if call.operands else None
        tensor = operand.tensor if operand is not None and operand not in call.changed else None
        if operand is None or tensor is None or tensor.is_meta or tensor.numel() > LARGEST_SEARCH:
            return None
        if (
            value.dtype.is_floating_point
            or not tensor.is_floating_point()
            or operand.shape != value.shape
        ):
            return None
        hits = tensor.detach()[tensor.detach().trunc() == self.value]
        if len(hits) == 0 or bool((hits == self.value).any()):
            return None
        return operand, replace(self, value=float(hits[0]))

    def _moved(self, operand: Value, value: Value) -> HasElement:
        """The index stays known while the shape does."""
        if operand.shape == value.shape:
            return self
        if operand.shape[:1] == value.shape[:1]:
            return replace(self, index=self.index[:1])
        return replace(self, index=())

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return (
                None
                if thing.numel() > LARGEST_SEARCH or thing.is_meta
                else bool((thing == self.value).any())
            )
        if type(thing).__module__ == "numpy" and hasattr(thing, "dtype"):
            # An array, also one that lies in a file, or a single number.
            if thing.size > LARGEST_SEARCH or thing.dtype.kind not in "iufb":
                return None
            return bool((thing == self.value).any())
        if is_table(thing) or is_column(thing):
            return shown_in(thing, self.named, lambda each: bool((each == self.value).any()))
        if isinstance(thing, int | float):
            return thing == self.value
        if isinstance(thing, list | tuple):
            found = [self.holds(each) for each in thing[:100_000]]
            return True if True in found else False if None not in found else None
        if isinstance(thing, dict):
            return self.holds(list(thing.values()))
        return None

    def is_set_by(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return called_name(node) not in PASSES_VALUES
        return _computes(node) or isinstance(
            node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.IfExp
        )

    def describe(self) -> str:
        return f"{self.value:g}"


def _computes(node: ast.expr) -> bool:
    """Arithmetic, or what pandas works out under the name of an attribute: `column.cat.codes`."""
    match node:
        case ast.BinOp():
            return True
        case ast.Attribute(value=ast.Attribute(attr=accessor)):
            return accessor in ACCESSORS
    return False


@dataclass(frozen=True, slots=True)
class NotFinite(Property):
    """One element is NaN or Inf; of a table with `columns` columns, one in `column`, where that is known."""

    singles_out: ClassVar[bool] = True
    shows_in_lines: ClassVar[bool] = True
    tape: Tape = field(compare=False, repr=False)
    column: int = -1
    columns: int = 0
    named: str = ""
    """The column, where it is one of a table with names."""
    infinite: bool = False
    """It is Inf: that comes of no NaN."""
    places: tuple[int, ...] = ()
    """Of an array of `shape`, these elements alone."""
    shape: tuple[int, ...] = ()

    def of_column(self, name: str) -> Property:
        return replace(self, named=name)

    def places_in(self, thing: Any) -> tuple[int, ...]:
        if (
            type(thing).__module__ != "numpy"
            or getattr(thing, "dtype", None) is None
            or thing.dtype.kind not in "fc"
        ):
            return ()
        numpy = sys.modules["numpy"]
        bad = numpy.isinf(thing) if self.infinite else ~numpy.isfinite(thing)
        return tuple(map(int, numpy.flatnonzero(bad)[:MOST_PLACES]))

    def at_places(self, places: tuple[int, ...], shape: tuple[int, ...]) -> Property:
        return replace(self, places=places, shape=shape) if places else self

    def carrier(self, call: Call, _value: Value) -> tuple[Value, Property] | None:
        contents = Contents(self.tape)
        bad = [each for each in call.operands if contents.trouble(each)]
        if (
            not bad
            and call.name in ONLY_MOVES
            and call.operands
            and contents.of(call.operands[0]) is None
        ):
            # Gone, as of `torch.tensor(x).float()`; but a copy makes no NaN.
            bad = [call.operands[0]]
        return (bad[0], self) if bad else None

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return bool(trouble_in(thing))
        dtype = getattr(thing, "dtype", None) if type(thing).__module__ == "numpy" else None
        if dtype is not None:
            if dtype.kind not in "fc":
                return False if dtype.kind in "iub" else None
            return self._is_in(thing)
        if is_table(thing) or is_column(thing):
            shown = shown_in(thing, self.named, self._is_in)
            # Inf is rarely anything but a mistake, in whichever column.
            return True if shown is None and self.infinite else shown
        if isinstance(thing, float):
            return math.isinf(thing) if self.infinite else not math.isfinite(thing)
        if isinstance(thing, list | tuple):
            found = [self.holds(each) for each in thing[:100_000]]
            return True if True in found else False if None not in found else None
        if isinstance(thing, dict):
            return self.holds(list(thing.values()))
        return False if isinstance(thing, int | str) else None

    def _is_in(self, numbers: Any) -> bool:
        numpy = sys.modules["numpy"]
        if self.places and getattr(numbers, "shape", None) == self.shape:
            numbers = numpy.asarray(numbers).reshape(-1)[list(self.places)]
        return (
            bool(numpy.isinf(numbers).any())
            if self.infinite
            else not bool(numpy.isfinite(numbers).all())
        )

    def is_set_by(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            # What is filled or replaced was there before, and what is left of it still is.
            return called_name(node) not in PASSES_VALUES | {"fillna", "replace"}
        return _computes(node) or isinstance(
            node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.IfExp
        )

    def describe(self) -> str:
        return "not finite"


@dataclass(frozen=True, slots=True)
class Shows(Property):
    """The numbers of an array or a tensor pass a test: they are out of order, far apart, beyond a limit."""

    singles_out: ClassVar[bool] = True
    shows_in_lines: ClassVar[bool] = True
    shows_together: ClassVar[bool] = True
    test: Callable[[Any], bool] = field(compare=False, repr=False)
    tape: Tape = field(compare=False, repr=False)

    def carrier(self, call: Call, _value: Value) -> tuple[Value, Property] | None:
        contents = Contents(self.tape)
        # What is written into a buffer says more than what the buffer was made with.
        order = reversed(call.operands) if call.name == "__setitem__" else call.operands
        known = [(each, contents.of(each)) for each in order]
        return next(
            (
                (each, self)
                for each, content in known
                if content is not None and self.holds(content)
            ),
            None,
        )

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return None if thing.is_meta or thing.is_sparse else self.test(thing.detach())
        if is_array(thing):
            return self.test(thing) if thing.dtype.kind in "iuf" else None
        return False if isinstance(thing, int | float | str) else None

    def is_set_by(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return called_name(node) not in PASSES_VALUES
        return _computes(node) or isinstance(
            node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.IfExp
        )

    def describe(self) -> str:
        return "such numbers"


@dataclass(frozen=True, slots=True)
class IsNumber(Property):
    """A number that the program works out: it is born where it is computed, written down or asked for."""

    number: int | float | None = None

    def carrier(self, _call: Call, _value: Value) -> tuple[Value, Property] | None:
        return None

    def holds(self, thing: Any) -> bool | None:
        return (
            thing == self.number
            if type(thing) in (int, float) and self.number is not None
            else None
        )

    def is_set_by(self, node: ast.expr) -> bool:
        return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Constant | ast.Call)

    def describe(self) -> str:
        return f"{self.number}"
