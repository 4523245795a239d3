"""The image size that would fit: the forward calls run again with other sizes, without data."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import takewhile

import torch

from whence.lineage.ancestry import ancestors
from whence.rules.shape.layers import as_product
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value, flatten
from whence.tape.trial import try_shapes

SIZES = (*range(8, 65), 72, 80, 96, 112, 128, 160, 192, 224, 256, 299, 320, 384, 448, 512)


@dataclass(frozen=True, slots=True)
class Fitting:
    """The image size of this run, the sizes that fit, and a sentence with both."""

    had: int
    needed: tuple[int, ...]
    text: str


def fitting_resolution(failed: FailedCall, given: torch.Tensor, wanted: int) -> Fitting | None:
    """`2048 = 128*4*4 needs 32 px, 28 px gives 128*3*3`, if the input is an image."""
    value = failed.value(given)
    calls = [call for call in ancestors(value) if call.phase == "forward"][::-1]
    image = image_input(calls)
    if image is None or not calls:
        return None
    channels = _channels(calls)

    def features(size: int) -> int:
        reached = forward_shape(calls, value, {image: (*image.shape[:-2], size, size)})
        return reached[-1] if reached is not None else -1

    # The number of features never falls with the image size.
    larger = SIZES[bisect_left(SIZES, wanted, key=features) :]
    fitting = list(takewhile(lambda size: features(size) == wanted, larger))
    if not fitting:
        return None
    needed = as_product(wanted, channels) or str(wanted)
    had = as_product(given.shape[-1], channels) or str(given.shape[-1])
    before = image.shape[-1]
    return Fitting(
        before, tuple(fitting), f"{needed} needs {fitting[0]} px, {before} px gives {had}."
    )


def fitting_images(
    calls: list[Call], one: Value, other: Value, image: Value, axes: list[int]
) -> list[int]:
    """The nearest smaller and larger square image size for which two results agree."""

    def fits(size: int) -> bool:
        known = forward_shapes(calls, {image: (*image.shape[:-2], size, size)})
        if (
            known is None
            or one not in known
            or other not in known
            or any(_drops(call, known) for call in calls)
        ):
            return False
        return all(known[one][at] == known[other][at] for at in axes)

    had = image.shape[-1]
    ways = range(had - 1, had // 2, -1), range(had + 1, 2 * had)
    return [size for way in ways if (size := next(filter(fits, way), None)) is not None]


def image_input(calls: list[Call]) -> Value | None:
    """The input of the first convolution, as it entered the model."""
    made = {id(output) for call in calls for output in call.outputs}
    for call in calls:
        for operand in call.operands:
            if len(operand.shape) == 4 and id(operand) not in made and not operand.requires_grad:
                return operand if operand.shape[-1] == operand.shape[-2] else None
    return None


def _channels(calls: list[Call]) -> int:
    images = (
        call.results[0]
        for call in reversed(calls)
        if call.outputs and len(call.results[0].shape) == 4
    )
    return next((image.shape[1] for image in images), 1)


def _drops(call: Call, known: dict[Value, tuple[int, ...]]) -> bool:
    """Whether a call that divides a size leaves a remainder."""
    before = known.get(call.operands[0], ()) if call.operands else ()
    after = known.get(call.results[0], ()) if call.results else ()
    return (
        len(before) == len(after) > 2
        and bool(after[-1])
        and before[-1] % max(1, before[-1] // after[-1]) > 0
    )


def forward_shape(
    calls: list[Call], value: Value, shapes: dict[Value, tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The shape of a value if some inputs had other shapes."""
    known = forward_shapes(calls, shapes)
    return known.get(value) if known is not None else None


def forward_shapes(
    calls: list[Call], shapes: dict[Value, tuple[int, ...]]
) -> dict[Value, tuple[int, ...]] | None:
    """The shapes that follow from other input shapes; None if a call rejects them."""
    known = dict(shapes)
    for call in calls:
        if not any(operand in known for operand in call.operands):
            continue
        outcome = try_shapes(call, known)
        if not outcome.ran:
            return None
        results = [each for each in flatten(outcome.result) if isinstance(each, torch.Tensor)]
        for output, result in zip(call.results, results, strict=False):
            known[output] = tuple(result.shape)
    return known
