"""What is followed back: a type, the size of an axis, one value. Each knows how it is carried by a call, and when an object outside torch has it."""

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
from whence.lineage.tables import is_column, is_table, shown_in
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, Foreign, Tape, Value, flatten
from whence.tape.trial import Shape, try_shapes

LARGEST_SEARCH = 50_000_000
MOST_PLACES = 10_000


class Property:
    """What a property must say of itself; what it does not say has these answers."""

    __slots__ = ()
    singles_out: ClassVar[bool] = False
    """Whether it tells one sample of a batch from the others."""
    shows_in_lines: ClassVar[bool] = False
    """Whether a variable shows it, so that a sample can be made again with an eye on every line."""
    outlives_files: ClassVar[bool] = False
    """Whether it is to be followed through a file, from what reads it to what writes it in the same program."""
    of_the_whole: ClassVar[bool] = False
    """Whether things that are put together get it together: no part that stands in the list itself is its birth."""

    shows_together: ClassVar[bool] = False
    """Whether it is one of many numbers together, so that what changes some of them may have made it."""

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        """The operand from which the call's result has the property, or None if it was born in this call."""
        raise NotImplementedError

    def holds(self, _thing: Any) -> bool | None:
        """Whether an object outside torch has the property; None where that cannot be known."""
        return None

    def is_set_by(self, _node: ast.expr) -> bool:
        """Whether an expression decides the property by itself, whatever goes into it."""
        return False

    def is_born_in(self, _node: ast.AST) -> bool:
        """Whether an expression is its birth for certain, by its syntax alone."""
        return False

    def contradicts(self, _node: ast.expr) -> bool:
        """Whether what the expression makes cannot have the property, by its syntax alone."""
        return False

    def of_column(self, _name: str) -> Property:
        """The same, of one column of each table that has it."""
        return self

    def places_in(self, _thing: Any) -> tuple[int, ...]:
        """The elements of an array that have it, counted in a row, where it is one of elements."""
        return ()

    def at_places(self, _places: tuple[int, ...], _shape: tuple[int, ...]) -> Property:
        """The same, of some elements of each array of that shape."""
        return self

    def describe(self) -> str:
        raise NotImplementedError


def called_name(node: ast.expr) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


HALVES = (torch.bfloat16, torch.float16)
# What these pick depends on data, so that they cannot be tried without; the type is that of what they pick from.
SELECTIONS = frozenset(
    {"__getitem__", "__setitem__", "masked_select", "nonzero", "unique", "index", "take", "repeat_interleave"}
)
CASTS = {
    "double",
    "float",
    "half",
    "bfloat16",
    "long",
    "int",
    "short",
    "char",
    "byte",
    "bool",
    "astype",
    "to",
    "type",
    "view",
}


METHOD_DTYPES = {"double": "float64", "float": "float32", "half": "float16", "long": "int64", "int": "int32",
                 "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool", "integers": "int64", "randint": "int64",
                 "randperm": "int64", "arange": "int64", "argmax": "int64", "argsort": "int64", "permutation": "int64"}  # fmt: skip
# numpy's numbers are made by their type: np.float32(0.5).
SCALARS = {"float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8"}
# torch's oldest constructors have the type in their name.
CONSTRUCTORS = {"DoubleTensor": "float64", "FloatTensor": "float32", "HalfTensor": "float16", "BFloat16Tensor": "bfloat16",
                "LongTensor": "int64", "IntTensor": "int32", "ShortTensor": "int16", "CharTensor": "int8", "ByteTensor": "uint8",
                "BoolTensor": "bool"}  # fmt: skip
METHOD_DTYPES |= {each: each for each in SCALARS} | CONSTRUCTORS


def named_dtype(node: ast.expr) -> str | None:
    """The type that an expression names for its result: `dtype=np.uint8`, `.astype("int64")`, `.long()`."""
    if isinstance(node, ast.Compare):
        return "bool"
    if not isinstance(node, ast.Call):
        return None
    named = next((keyword.value for keyword in node.keywords if keyword.arg == "dtype"), None)
    if named is None and called_name(node) in ("astype", "to", "type") and len(node.args) == 1:
        named = node.args[0]
    if isinstance(named, ast.Attribute):
        return named.attr if named.attr != "long" else "int64"
    if isinstance(named, ast.Constant) and isinstance(named.value, str):
        return named.value
    return METHOD_DTYPES.get(called_name(node)) if named is None else None


@dataclass(frozen=True, slots=True)
class HasDtype(Property):
    of_the_whole: ClassVar[bool] = True
    dtype: torch.dtype

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        if call.autocast and self.dtype in HALVES:
            return None
        if (before := before_change(call, value)) is not None:
            return before, self
        carriers = [each for each in dict.fromkeys(call.operands) if each.dtype == self.dtype]
        for operand in sorted(carriers, key=_is_weight):
            if self._decides([operand], call, value):
                return operand, self
        # Products and the like refuse a change of one operand alone.
        if len(carriers) > 1 and self._decides(carriers, call, value):
            return min(carriers, key=_is_weight), self
        return None

    def _decides(self, operands: list[Value], call: Call, value: Value) -> bool:
        """Whether the result would have another type if these operands had: found by trying."""
        if call.name in SELECTIONS:
            return operands[0] is call.operands[0]
        other = torch.float32 if self.dtype != torch.float32 else torch.float64
        if self.dtype is torch.bool:
            # What turns bits around takes no numbers with a point.
            other = torch.uint8
        outcome = try_shapes(call, dtypes=dict.fromkeys(operands, other))
        number = call.results.index(value) if value in call.results else 0
        results = [each for each in flatten(outcome.result) if isinstance(each, torch.Tensor)]
        return outcome.ran and number < len(results) and results[number].dtype != self.dtype

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return thing.dtype == self.dtype
        if is_array(thing) or type(thing).__module__ == "numpy":
            return str(getattr(thing, "dtype", "")) == self.describe()
        # Numbers and lists of them have no type of their own: it is given to them by what makes a tensor of them.
        return False if isinstance(thing, int | float | list) else None

    def is_set_by(self, node: ast.expr) -> bool:
        if not isinstance(node, ast.Call):
            return False
        names = CASTS | SCALARS | CONSTRUCTORS.keys()
        return called_name(node) in names or any(keyword.arg == "dtype" for keyword in node.keywords)

    def contradicts(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Constant):
            # A number of Python's: see `holds`.
            return True
        named = named_dtype(node)
        return named is not None and named != self.describe()

    def describe(self) -> str:
        return str(self.dtype).removeprefix("torch.")


@dataclass(frozen=True, slots=True)
class IsWhole(Property):
    """Numbers without fractions, of whatever type: born where they were made whole."""

    def carrier(self, call: Call, value: Value) -> tuple[Value, Property] | None:
        if (before := before_change(call, value)) is not None:
            return before, self
        makes_whole = not value.dtype.is_floating_point and any(each.dtype.is_floating_point for each in call.operands)
        return (call.operands[0], self) if call.operands and not makes_whole else None

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return not thing.is_floating_point() or bool((thing == thing.trunc()).all())
        if is_array(thing) or type(thing).__module__ == "numpy":
            kind = getattr(getattr(thing, "dtype", None), "kind", "")
            return kind in "iu" or (bool((thing == thing.round()).all()) if kind == "f" else None)
        if isinstance(thing, list | tuple) and thing:
            return all(self.holds(each) is True for each in thing[:64])
        return thing == int(thing) if isinstance(thing, int | float) and math.isfinite(thing) else None

    def is_set_by(self, node: ast.expr) -> bool:
        return called_name(node) in ("int", "long", "short") or (named_dtype(node) or "").startswith(("int", "uint"))

    def describe(self) -> str:
        return "whole numbers"


KEEPS_SHAPE = frozenset({"astype", "copy", "clone", "float", "double", "long", "to", "contiguous", "detach", "cpu", "numpy", "tensor",
                         "as_tensor", "from_numpy", "asarray", "array", "ascontiguousarray", "list", "fit_transform", "transform",
                         "abs", "log", "exp", "sqrt", "clip", "Tensor", "FloatTensor", "LongTensor", "to_numpy", "sort_values",
                         "sort_index"})  # fmt: skip


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


# Of tables: what leaves each number that is left in its column.
PICKS_ROWS = frozenset({"to_numpy", "reset_index", "set_index", "sort_values", "sort_index", "sample", "head", "tail", "drop", "dropna",
                        "drop_duplicates", "query", "filter", "copy", "astype", "infer_objects", "convert_dtypes", "tolist"})  # fmt: skip
PASSES_VALUES = KEEPS_SHAPE - {"abs", "log", "exp", "sqrt", "clip", "fit_transform", "transform"} | {
    "stack", "concatenate", "cat", "reshape", "view", "ravel", "squeeze", "pad_sequence", "split", "array_split",
    "column_stack", "vstack", "hstack", "dstack", "transpose", "float32", "float64", "Variable"} | PICKS_ROWS  # fmt: skip


WRITES = frozenset({"__setitem__", "copy_", "index_copy_", "index_put_", "scatter_", "masked_scatter_"})
BLANKS = {"zeros": 0, "zeros_like": 0, "new_zeros": 0, "ones": 1, "ones_like": 1, "new_ones": 1}


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
        if call.changed and any(type(each) in (int, float) and each == self.value for each in flatten(call.args[1:])):
            # Written by this call: `mask[border] = 255`.
            return None
        written = [each for each in call.operands if each not in call.changed and each.dtype == value.dtype]
        if call.name in WRITES and written and written[-1].tensor is None and self._is_blank(call.changed):
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
        return (unknown, self._moved(unknown, value)) if unknown is not None and call.name not in ARITHMETIC else None

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
        if value.dtype.is_floating_point or not tensor.is_floating_point() or operand.shape != value.shape:
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
            return None if thing.numel() > LARGEST_SEARCH or thing.is_meta else bool((thing == self.value).any())
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
        return _computes(node) or isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.IfExp)

    def describe(self) -> str:
        return f"{self.value:g}"


ACCESSORS = frozenset({"cat", "dt", "str"})


def _computes(node: ast.expr) -> bool:
    """Arithmetic, or what pandas works out under the name of an attribute: `column.cat.codes`."""
    match node:
        case ast.BinOp():
            return True
        case ast.Attribute(value=ast.Attribute(attr=accessor)):
            return accessor in ACCESSORS
    return False


ONLY_MOVES = frozenset({"float", "double", "to", "cpu", "type", "contiguous", "clone", "detach", "reshape", "view", "flatten", "squeeze",
                        "unsqueeze", "permute", "transpose", "t", "T", "__getitem__", "pin_memory"})  # fmt: skip


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
        if type(thing).__module__ != "numpy" or getattr(thing, "dtype", None) is None or thing.dtype.kind not in "fc":
            return ()
        numpy = sys.modules["numpy"]
        bad = numpy.isinf(thing) if self.infinite else ~numpy.isfinite(thing)
        return tuple(map(int, numpy.flatnonzero(bad)[:MOST_PLACES]))

    def at_places(self, places: tuple[int, ...], shape: tuple[int, ...]) -> Property:
        return replace(self, places=places, shape=shape) if places else self

    def carrier(self, call: Call, _value: Value) -> tuple[Value, Property] | None:
        contents = Contents(self.tape)
        bad = [each for each in call.operands if contents.trouble(each)]
        if not bad and call.name in ONLY_MOVES and call.operands and contents.of(call.operands[0]) is None:
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
        return bool(numpy.isinf(numbers).any()) if self.infinite else not bool(numpy.isfinite(numbers).all())

    def is_set_by(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            # What is filled or replaced was there before, and what is left of it still is.
            return called_name(node) not in PASSES_VALUES | {"fillna", "replace"}
        return _computes(node) or isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.IfExp)

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
        return next(((each, self) for each, content in known if content is not None and self.holds(content)), None)

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return None if thing.is_meta or thing.is_sparse else self.test(thing.detach())
        if is_array(thing):
            return self.test(thing) if thing.dtype.kind in "iuf" else None
        return False if isinstance(thing, int | float | str) else None

    def is_set_by(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Call):
            return called_name(node) not in PASSES_VALUES
        return _computes(node) or isinstance(node, ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.IfExp)

    def describe(self) -> str:
        return "such numbers"


ARITHMETIC = frozenset(
    {"add", "sub", "mul", "div", "__add__", "__sub__", "__mul__", "__radd__", "add_", "sub_", "randint"}
)


def _came_short(call: Call) -> bool:
    """A slice that asks for more than there is, of data as they were made: the last rows of a table."""
    if call.name != "__getitem__" or call.phase == "forward" or len(call.args) != 2:
        return False
    made = call.operands[0].call
    if made is not None and any(isinstance(each, Value | Foreign) for each in flatten((made.args, made.kwargs))):
        return False
    given = call.args[1] if isinstance(call.args[1], tuple) else (call.args[1],)
    sizes = call.operands[0].shape
    return any(
        isinstance(part, slice) and isinstance(part.stop, int) and part.stop > size
        for part, size in zip(given, sizes, strict=False)
    )


def before_change(call: Call, value: Value) -> Value | None:
    """What a value was before this call changed it in place: shape, type and device stay as they were."""
    if value not in call.outputs or not call.changed:
        return None
    number = call.outputs.index(value)
    return call.changed[number] if number < len(call.changed) else None


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
    data = [each for each in operands if not _is_weight(each)]
    found = _deciding_axes(call, data, number, axis)
    if not found and call.name not in WEIGHTED:
        # A slice of a table, a transposed matrix: there a weight is data.
        found = _deciding_axes(call, [each for each in operands if _is_weight(each)], number, axis)
    return found


def _longest(source: list[tuple[Value, int]], size: int) -> list[tuple[Value, int]]:
    """Of things that are padded to the longest one, that one decides."""
    sizes = [operand.shape[axis] for operand, axis in source]
    is_padded = max(sizes) == size != sum(sizes) and math.prod(sizes) != size
    return [source[sizes.index(size)]] if is_padded else source


# Calls in which a weight decides by itself how large the result is.
WEIGHTED = frozenset({"linear", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "embedding",
                      "bilinear", "lstm", "gru", "rnn_tanh", "rnn_relu", "matmul", "__matmul__", "mm", "addmm"})  # fmt: skip


def _deciding_axes(call: Call, data: list[Value], number: int, axis: int) -> list[tuple[Value, int]]:
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


def _is_weight(value: Value) -> bool:
    tensor = value.tensor
    return tensor is not None and tensor.is_leaf and tensor.requires_grad


def _depends(call: Call, positions: dict[Value, int], number: int, axis: int) -> bool:
    for factor, extra in ((1, 1), (2, 0), (4, 0)):
        shapes: dict[Value, Shape] = {
            value: tuple(size * factor + extra if at == position else size for at, size in enumerate(value.shape))
            for value, position in positions.items()
        }
        outcome = try_shapes(call, shapes)
        if outcome.ran:
            before, shapes_after = call.results[number].shape, outcome.shapes()
            after = shapes_after[number] if number < len(shapes_after) else ()
            if len(after) >= -axis and after[axis] != before[axis]:
                return True
    return False


@dataclass(frozen=True, slots=True)
class IsObject(Property):
    """It is no block of numbers: an object array, or a ragged list."""

    def carrier(self, _call: Call, _value: Value) -> tuple[Value, Property] | None:
        return None

    def holds(self, thing: Any) -> bool | None:
        if is_array(thing):
            return thing.dtype.kind in "OSU"
        if isinstance(thing, list | tuple) and thing:
            texts = [isinstance(each, str) or each is None for each in thing]
            if any(texts):
                return not all(texts)
            return len({len(each) for each in thing if isinstance(each, list | tuple)}) > 1
        return False if isinstance(thing, int | float | str) else None

    def is_set_by(self, node: ast.expr) -> bool:
        return isinstance(node, ast.ListComp)

    def describe(self) -> str:
        return "not a block of numbers"


@dataclass(frozen=True, slots=True)
class HasDevice(Property):
    device: torch.device

    def carrier(self, call: Call, _value: Value) -> tuple[Value, Property] | None:
        carriers = [each for each in call.operands if each.device == self.device]
        return (carriers[0], self) if carriers else None

    def holds(self, thing: Any) -> bool | None:
        return thing.device == self.device if isinstance(thing, torch.Tensor) else None

    def describe(self) -> str:
        return str(self.device)


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
        return (isinstance(node, ast.Call) and called_name(node) not in KEEPS_SHAPE) or isinstance(node, ast.Subscript)

    def describe(self) -> str:
        return str(self.shape)


RANK_CHANGES = frozenset({"view", "reshape", "squeeze", "unsqueeze", "flatten", "unflatten", "squeeze_", "unsqueeze_"})


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


@dataclass(frozen=True, slots=True)
class IsNumber(Property):
    """A number that the program works out: it is born where it is computed, written down or asked for."""

    number: int | float | None = None

    def carrier(self, _call: Call, _value: Value) -> tuple[Value, Property] | None:
        return None

    def holds(self, thing: Any) -> bool | None:
        return thing == self.number if type(thing) in (int, float) and self.number is not None else None

    def is_set_by(self, node: ast.expr) -> bool:
        return isinstance(node, ast.BinOp | ast.UnaryOp | ast.Constant | ast.Call)

    def describe(self) -> str:
        return f"{self.number}"
