"""Input scales that a summary shows to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from whence.data.facts import Facts
from whence.data.marks import FIX, WHY, Mark, mark_in
from whence.data.summary import ArraySummary

APART = 1e4
LARGE = 1e3
FAINT = 0.01
CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Scale:
    """What is wrong with the scale of some values."""

    said: str
    shows: Callable[[Any], bool]
    """Whether an array shows the fault."""
    why: str = "Layers and learning rates are designed for inputs of about unit size."
    fix: str = (
        "Scale the inputs to mean 0 and standard deviation 1, once, where samples are created."
    )
    mark: Mark | None = None
    """A placeholder for missing values, a mistake whether or not the loss decreases."""


def scale_of(path: str, leaf: ArraySummary, pixels: dict[str, bool]) -> Scale | None:
    numbers = leaf.numbers
    name = f"the inputs {path}" if path else "the inputs"
    if numbers is None or not any("float" in each for each in leaf.dtypes):
        return None
    facts = numbers.facts()
    columns = [
        (each.low, each.high, each.mean, each.std)
        for each in facts
        if each.low is not None
        and each.high is not None
        and each.mean is not None
        and each.std is not None
    ]
    if not columns:
        return None
    low, high = min(each[0] for each in columns), max(each[1] for each in columns)
    if path in pixels and low >= 0:
        if pixels[path] and 100 < high <= 255:
            return Scale(
                f"{name} are integers from {low:g} to {high:g}: unscaled images",
                _is_large,
            )
        if 0 < high < FAINT:
            return Scale(
                f"{name} do not exceed {high:.2g}: images that were scaled twice", is_faint
            )
    if path not in pixels and len(columns) > 1 and (found := _marks_in(name, facts)) is not None:
        return found
    sizes = [abs(mean) + spread for _, _, mean, spread in columns if spread > 0]
    if (
        path not in pixels
        and len(sizes) > 1
        and max(sizes) > LARGE
        and max(sizes) > APART * min(sizes)
    ):
        return Scale(
            f"the columns of {name} differ in scale: from {min(sizes):.2g} to {max(sizes):.2g}",
            _is_large,
        )
    return None


def _marks_in(name: str, facts: list[Facts]) -> Scale | None:
    for number, each in enumerate(facts):
        if (mark := mark_in(each)) is not None:
            said = mark.text(f"column {number} of {name}")
            return Scale(said, partial(_has, mark.value), why=WHY, fix=FIX, mark=mark)
    return None


def _has(mark: float, thing: Any) -> bool:
    """Whether a float array contains the placeholder."""
    if hasattr(thing, "to_numpy"):
        thing = thing.to_numpy()
    is_real = "float" in str(getattr(thing, "dtype", "")) and len(getattr(thing, "shape", ())) > 0
    return is_real and bool((abs(thing - mark) <= abs(mark) * CLOSE).any())


def _is_large(thing: Any) -> bool:
    """Whether a float array has large values; uint8 images may have them."""
    return "float" in str(thing.dtype) and reaches_beyond(-LARGE, 100.0, thing)


def is_faint(thing: Any) -> bool:
    """Whether the brightest pixel of an image is dark: it was scaled once too often."""
    is_image = "float" in str(thing.dtype) and len(thing.shape) > 1 and 0 not in tuple(thing.shape)
    return is_image and float(thing.min()) >= 0 and 0 < float(thing.max()) < FAINT


def reaches_beyond(low: float, high: float, thing: Any) -> bool:
    shape = tuple(getattr(thing, "shape", ()))
    return (
        len(shape) > 0
        and 0 not in shape
        and (float(thing.max()) > high or float(thing.min()) < low)
    )
