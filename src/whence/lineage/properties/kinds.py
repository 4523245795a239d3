"""The type of a tensor or an array, and the device it lives on."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from whence.lineage.looking import is_array
from whence.lineage.properties.property import Property, before_change, called_name
from whence.tape.replay import is_weight
from whence.tape.tape import Call, Value, flatten
from whence.tape.trial import try_shapes

HALVES = (torch.bfloat16, torch.float16)
# What these pick depends on data, so that they cannot be tried without; the type is that of what they pick from.
SELECTIONS = frozenset(
    {
        "__getitem__",
        "__setitem__",
        "masked_select",
        "nonzero",
        "unique",
        "index",
        "take",
        "repeat_interleave",
    }
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
        for operand in sorted(carriers, key=is_weight):
            if self._decides([operand], call, value):
                return operand, self
        # Products and the like refuse a change of one operand alone.
        if len(carriers) > 1 and self._decides(carriers, call, value):
            return min(carriers, key=is_weight), self
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
        return called_name(node) in names or any(
            keyword.arg == "dtype" for keyword in node.keywords
        )

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
        makes_whole = not value.dtype.is_floating_point and any(
            each.dtype.is_floating_point for each in call.operands
        )
        return (call.operands[0], self) if call.operands and not makes_whole else None

    def holds(self, thing: Any) -> bool | None:
        if isinstance(thing, torch.Tensor):
            return not thing.is_floating_point() or bool((thing == thing.trunc()).all())
        if is_array(thing) or type(thing).__module__ == "numpy":
            kind = getattr(getattr(thing, "dtype", None), "kind", "")
            return kind in "iu" or (bool((thing == thing.round()).all()) if kind == "f" else None)
        if isinstance(thing, list | tuple) and thing:
            return all(self.holds(each) is True for each in thing[:64])
        return (
            thing == int(thing) if isinstance(thing, int | float) and math.isfinite(thing) else None
        )

    def is_set_by(self, node: ast.expr) -> bool:
        return called_name(node) in ("int", "long", "short") or (
            named_dtype(node) or ""
        ).startswith(("int", "uint"))

    def describe(self) -> str:
        return "whole numbers"


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
