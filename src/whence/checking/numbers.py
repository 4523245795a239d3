"""Numbers and shapes as the report prints them."""

from __future__ import annotations

import math
from collections.abc import Iterable


def number_text(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return f"{number:.4g}"


def shape_text(shape: Iterable[int]) -> str:
    sizes = tuple(shape)
    return f"({', '.join(map(str, sizes))}{',' if len(sizes) == 1 else ''})"
