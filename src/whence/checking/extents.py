"""Other sequence lengths and image sizes that the model rejects.

Many models have fixed sizes on purpose, so these are notes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.checking.axes import Layout
from whence.checking.calling import ModelCall
from whence.checking.fakes import Fakes
from whence.checking.places import place_of_exception
from whence.checking.structure import tensors_in
from whence.checking.subject import Subject

SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Extent:
    """Sizes from an axis on, and their replacement in every tensor that has them there."""

    said: str
    axis: int
    old: tuple[int, ...]
    new: tuple[int, ...]

    def __call__(self, tensor: torch.Tensor) -> tuple[int, ...]:
        shape = tuple(tensor.shape)
        start = self.axis if self.axis > 0 else len(shape) - len(self.old)
        if start < 1 or shape[start : start + len(self.old)] != self.old:
            return shape
        return (*shape[:start], *self.new, *shape[start + len(self.old) :])


def other_extents(subject: Subject, layout: Layout, fakes: Fakes) -> list[str]:
    """Return notes on the first input that is an image or a sequence."""
    call = subject.call()
    if not fakes.works or call is None:
        return []
    for each in _batched(call, layout):
        if each.dim() == 4 and each.is_floating_point():
            height, width = int(each.shape[2]), int(each.shape[3])
            others = [(height + 1, width + 1), (2 * height, 2 * width)]
            return _tried(subject, fakes, [_image((height, width), other) for other in others])
        if each.dim() == (3 if each.is_floating_point() else 2) and each.shape[1] >= SHORTEST:
            length = int(each.shape[1])
            said = f"{length - 1} instead of {length} on axis 1"
            return _tried(subject, fakes, [Extent(said, 1, (length,), (length - 1,))])
    return []


def _batched(call: ModelCall, layout: Layout) -> list[torch.Tensor]:
    return [each for _, each in tensors_in((call.args, call.kwargs)) if layout.axis(each) == 0]


def _image(old: tuple[int, int], new: tuple[int, int]) -> Extent:
    return Extent(f"images of {new[0]} x {new[1]} instead of {old[0]} x {old[1]}", 0, old, new)


def _tried(subject: Subject, fakes: Fakes, extents: list[Extent]) -> list[str]:
    notes = []
    for extent in extents:
        try:
            fakes.run(subject.source.batch, extent)
        except Exception as error:
            place = place_of_exception(error)
            where = f" at {place.file}:{place.line}" if place is not None else ""
            notes.append(f"does not run with {extent.said}{where}")
    return notes
