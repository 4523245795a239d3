"""What is followed back: a type, the size of an axis, a number. Each knows how a call carries it, and when an object outside torch has it."""

from whence.lineage.properties.axes import (
    KEEPS_SHAPE,
    WEIGHTED,
    GotAxis,
    HasAxis,
    HasRank,
    HasShape,
    axis_source,
)
from whence.lineage.properties.kinds import (
    CONSTRUCTORS,
    HALVES,
    HasDevice,
    HasDtype,
    IsObject,
    IsWhole,
    named_dtype,
)
from whence.lineage.properties.numbers import (
    BLANKS,
    PASSES_VALUES,
    PICKS_ROWS,
    HasElement,
    IsNumber,
    NotFinite,
    Shows,
)
from whence.lineage.properties.property import Property, before_change, called_name

__all__ = [
    "BLANKS",
    "CONSTRUCTORS",
    "HALVES",
    "KEEPS_SHAPE",
    "PASSES_VALUES",
    "PICKS_ROWS",
    "WEIGHTED",
    "GotAxis",
    "HasAxis",
    "HasDevice",
    "HasDtype",
    "HasElement",
    "HasRank",
    "HasShape",
    "IsNumber",
    "IsObject",
    "IsWhole",
    "NotFinite",
    "Property",
    "Shows",
    "axis_source",
    "before_change",
    "called_name",
    "named_dtype",
]
