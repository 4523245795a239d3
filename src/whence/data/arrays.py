"""Read one array of any library as numbers or as words, without a copy where possible.

Handles torch, numpy, pandas, polars and plain lists. None of them is imported: whoever has a numpy
array has already loaded numpy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import torch
import torch.utils.dlpack

from whence.finding import described

NAT = -(2**63)
PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True, slots=True)
class Words:
    """Text, read one chunk at a time."""

    length: int
    take: Callable[[int, int], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class Part:
    """One array, or one column of a frame: numbers, words, or the reason why neither was read."""

    shape: tuple[int, ...]
    dtype: str
    numbers: torch.Tensor | None = None
    words: Words | None = None
    declared: tuple[str, ...] = ()
    """Categories declared by the type itself, whether they occur or not."""
    is_time: bool = False
    dtype_matters: bool = True
    trouble: str | None = None

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    def as_one_row(self) -> Part:
        """Add a batch axis in front: one sample as a batch."""
        numbers = self.numbers.unsqueeze(0) if self.numbers is not None else None
        return replace(self, shape=(1, *self.shape), numbers=numbers)


def read(thing: Any) -> Part:
    """Read an array, or record why it cannot be read. Never raises."""
    try:
        return _read(thing)
    except Exception as exception:
        return Part(
            _shape_of(thing),
            type(thing).__name__,
            dtype_matters=False,
            trouble=described(exception),
        )


def _shape_of(thing: Any) -> tuple[int, ...]:
    try:
        return tuple(int(size) for size in thing.shape)
    except Exception:
        return ()


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or pandas' NA."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and value != value


def library_of(thing: Any) -> str:
    return (type(thing).__module__ or "").split(".")[0]


def is_array(thing: Any) -> bool:
    """Whether a thing is one array (or one column) of any library."""
    if isinstance(thing, torch.Tensor) or _is_numpy(thing):
        return True
    if library_of(thing) in ("pandas", "polars"):
        return type(thing).__name__ in (
            "Series",
            "Index",
            "DatetimeIndex",
            "RangeIndex",
            "Categorical",
        )
    return (
        library_of(thing) == "scipy"
        or hasattr(type(thing), "__array_interface__")
        or hasattr(thing, "__dlpack__")
    )


def _is_numpy(thing: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(thing, numpy.ndarray | numpy.generic)


def _read(thing: Any) -> Part:
    if isinstance(thing, torch.Tensor):
        return _read_tensor(thing)
    if _is_numpy(thing):
        return _read_numpy(thing)
    if library_of(thing) == "pandas":
        return _read_pandas(thing)
    if library_of(thing) == "polars":
        return _read_polars(thing)
    if library_of(thing) == "scipy":
        return Part(tuple(thing.shape), str(thing.dtype), trouble="it is sparse")
    if isinstance(thing, PLAIN):
        part = _read_objects([thing])
        return replace(part, shape=(), numbers=None if part.numbers is None else part.numbers[0])
    if isinstance(thing, list | tuple):
        return replace(_read_list(thing), dtype_matters=False)
    if "numpy" in sys.modules and (
        hasattr(thing, "__array__") or hasattr(thing, "__array_interface__")
    ):
        return _read_numpy(sys.modules["numpy"].asarray(thing))
    if hasattr(thing, "__dlpack__"):
        return _read_tensor(torch.utils.dlpack.from_dlpack(thing))
    return Part((), type(thing).__name__, trouble=f"a {type(thing).__name__} is not an array")


def _read_list(things: Sequence[Any]) -> Part:
    """Convert a column, or the rows of a table, to plain Python values."""
    if not things or not all(isinstance(each, list | tuple) for each in things):
        return _read_objects(things)
    if len({len(each) for each in things}) > 1:
        return Part((len(things),), "list", trouble="its rows differ in length")
    flat = _read_objects([value for each in things for value in each])
    shape = (len(things), len(things[0]))
    return replace(
        flat, shape=shape, numbers=None if flat.numbers is None else flat.numbers.reshape(shape)
    )


def _read_tensor(tensor: torch.Tensor) -> Part:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:
        return Part((tensor.size(0),), dtype, trouble="it is a nested tensor")
    part = Part(tuple(tensor.shape), dtype)
    if tensor.layout is not torch.strided:
        return replace(part, trouble="it is sparse")
    if tensor.is_meta:
        return replace(part, trouble="it is on the meta device and has no values")
    if tensor.is_quantized:
        return replace(part, trouble="it is quantised")
    if tensor.is_complex():
        return replace(part, trouble="it is complex")
    return replace(part, numbers=tensor.detach().as_subclass(torch.Tensor))


def _read_numpy(array: Any) -> Part:
    numpy = sys.modules["numpy"]
    if isinstance(array, numpy.ma.MaskedArray):
        plain = numpy.asarray(array.astype("float64").filled(numpy.nan))
        return replace(_read_numpy(plain), dtype=array.dtype.name)
    array = numpy.asarray(array)
    kind, part = array.dtype.kind, Part(tuple(array.shape), array.dtype.name)
    if kind in "Mm":
        ticks = _tensor_of(array.view("int64"))
        return replace(part, numbers=_without_nat(ticks), is_time=kind == "M")
    if kind in "UST" and array.ndim <= 1:
        flat = array.reshape(-1)
        return replace(
            part, dtype="str", words=Words(len(flat), lambda start, stop: flat[start:stop].tolist())
        )
    if kind == "O" and array.ndim <= 1:
        return replace(_read_objects(array.reshape(-1)), shape=part.shape, dtype="object")
    if kind == "c":
        return replace(part, trouble="it is complex")
    if kind not in "biuf":
        return replace(part, trouble=f"arrays of {array.dtype} with {array.ndim} axes are not read")
    return replace(part, numbers=_tensor_of(array))


class _Writable:
    """Wrap a read-only array's memory, which torch accepts only with a warning.

    Nothing writes to it.
    """

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__array_interface__ = {
            **array.__array_interface__,
            "data": (array.__array_interface__["data"][0], False),
        }


def _tensor_of(array: Any) -> torch.Tensor:
    """View an array as a tensor.

    Copies only what torch cannot view: other byte orders, negative strides, long doubles.
    """
    numpy = sys.modules["numpy"]
    if array.dtype.itemsize > 8:
        array = array.astype("float64")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 or stride % array.dtype.itemsize for stride in array.strides):
        array = array.copy()
    if not array.flags.writeable:
        array = numpy.asarray(_Writable(array))
    return torch.from_numpy(array)


def _without_nat(ticks: torch.Tensor) -> torch.Tensor:
    return ticks.to(torch.float64).masked_fill_(ticks == NAT, float("nan"))


def _read_objects(things: Sequence[Any]) -> Part:
    """Read plain Python values: all numbers, all booleans or all text, with gaps; else mixed."""
    kinds = {type(each) for each in things if not is_missing(each)}
    gaps = any(is_missing(each) for each in things)
    shape = (len(things),)
    if kinds <= {bool} and kinds and not gaps:
        return Part(shape, "bool", numbers=torch.tensor(list(things), dtype=torch.bool))
    if kinds <= {int} and kinds and not gaps:
        return Part(shape, "int64", numbers=torch.tensor(list(things), dtype=torch.int64))
    if all(
        issubclass(kind, int | float) or library_of_type(kind) == "numpy" for kind in kinds
    ) and (kinds or gaps):
        values = [float("nan") if is_missing(each) else float(each) for each in things]
        return Part(shape, "float64", numbers=torch.tensor(values, dtype=torch.float64))
    if all(issubclass(kind, str) for kind in kinds):
        return Part(shape, "str", words=Words(len(things), lambda start, stop: things[start:stop]))
    if all(issubclass(kind, date) for kind in kinds):
        days = [float("nan") if is_missing(each) else float(each.toordinal()) for each in things]
        return Part(shape, "date", numbers=torch.tensor(days, dtype=torch.float64), is_time=True)
    names = ", ".join(sorted(kind.__name__ for kind in kinds)[:4])
    return Part(shape, "object", trouble=f"it holds objects of mixed types: {names}")


def library_of_type(kind: type) -> str:
    return (kind.__module__ or "").split(".")[0]


def _read_pandas(series: Any) -> Part:
    dtype, name = series.dtype, str(series.dtype)
    shape = (len(series),)
    if name == "category":
        names = tuple(str(each) for each in dtype.categories)
        words = Words(
            len(series), lambda start, stop: [_word(each) for each in series[start:stop].tolist()]
        )
        return Part(shape, name, words=words, declared=names)
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        ticks = _tensor_of(series.to_numpy(dtype="datetime64[ns]").view("int64"))
        return Part(shape, name, numbers=_without_nat(ticks), is_time=True)
    if library_of(dtype) == "numpy":
        return replace(_read_numpy(series.to_numpy()), dtype="str" if name == "str" else name)
    if kind in "iufb" and not series.isna().any():
        plain = {"i": "int64", "u": "int64", "f": "float64", "b": "bool"}[kind]
        return replace(_read_numpy(series.to_numpy(dtype=plain)), dtype=name)
    if kind in "iufb":
        return replace(
            _read_numpy(series.to_numpy(dtype="float64", na_value=float("nan"))), dtype=name
        )
    return replace(
        _read_objects(series.tolist()), dtype="str" if name in ("string", "str") else name
    )


def _word(value: Any) -> Any:
    return None if is_missing(value) else str(value)


def _read_polars(series: Any) -> Part:
    name = str(series.dtype)
    if series.dtype.is_temporal() and not name.startswith(("Duration", "Time")):
        ticks = torch.tensor(
            series.cast(int_of(series)).fill_null(NAT).to_list(), dtype=torch.int64
        )
        return Part((len(series),), name, numbers=_without_nat(ticks), is_time=True)
    if name.startswith(("Categorical", "Enum")):
        names = tuple(series.dtype.categories.to_list()) if name.startswith("Enum") else ()
        return Part(
            (len(series),),
            "category",
            words=Words(len(series), lambda a, b: series[a:b].to_list()),
            declared=names,
        )
    if series.dtype.is_numeric() and "numpy" in sys.modules:
        return replace(_read_numpy(series.to_numpy()), dtype=name.lower())
    known = {"String": "str", "Boolean": "bool"}.get(name, name.lower())
    return replace(_read_objects(series.to_list()), dtype=known)


def int_of(series: Any) -> Any:
    """Return polars' dtype for 64-bit integers without importing polars."""
    return sys.modules[type(series).__module__.split(".")[0]].Int64
