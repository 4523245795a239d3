"""Samples of different size, that cannot be put together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.datasets.cuts import late_start
from whence.lineage.datasets.samples import trace_returned
from whence.lineage.looking import is_array
from whence.lineage.properties import HasAxis, axis_source
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.data.corrupt import named, sample_text
from whence.rules.data.stacked import ragged_by_hand
from whence.rules.rule import rule
from whence.rules.telling import describe, shape_text, tell
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.batches import leaves_of
from whence.tape.failed import FailedCall, Fetching, Stage
from whence.tape.tape import Call, Value

MOST_COMPARED = 8
LONGEST_CHAIN = 60


@rule("data/ragged-samples")
def ragged_samples(failed: FailedCall) -> Finding | None:
    """Samples of different size cannot be stacked.

    What happened
        Samples are stacked into one tensor, by the default collate or by the program, and one of them has another shape.
    Why it matters
        The message counts entries; what helps is the dataset index, the file, and the line that made it so.
    How it is detected
        The batch is fetched again in a child process; the sample whose shape differs from most is followed back. Where the others
        were of different size, too, the line that makes them alike is told: a padding that leaves the longest as they are. Where a
        stretch was cut out too late of something that is long enough, the line that draws where to begin.
    How to fix it
        Convert, resize or pad it in the dataset, or write a collate_fn that can take ragged samples.
    When it stays silent
        Samples that stack.
    Cost
        None until a fetch fails; then one batch is fetched again.
    """
    fetching = failed.fetching
    if fetching is None:
        return ragged_by_hand(failed)
    if fetching.stage is not Stage.COLLATING or not fetching.samples:
        return None
    odd = _odd_one(fetching.samples)
    if odd is None:
        return None
    position, path, shape, usual = odd
    sample = named(fetching, position, path)
    leaf = dict(leaves_of(fetching.samples[position]))[path]
    trail = _trail(failed, fetching, position, leaf, shape, usual)
    axis = _differing_axis(shape, usual)
    frames = (
        [frame for frame, _ in fetching.returns[position]] if axis is not None and shape[axis] < usual[axis] else []
    )
    if axis is not None and trail.spot is not None:
        begin = late_start(trail.spot, axis, usual[axis], frames)
        trail = (
            replace(trail, spot=begin, hops=(trail.spot.hop("cut here"), *trail.hops)) if begin is not None else trail
        )
    return tell(
        failed,
        "data/ragged-samples",
        verdict=f"{sample_text(fetching, position)} is {shape_text(shape)}, the others are {shape_text(usual)}",
        trail=replace(trail, sample=sample, phase="data"),
        why=f"A batch is one block, so all samples need one shape. {_axis_in_words(shape, usual, axis)}",
        fix="Make this sample like the others in the dataset (convert, resize, pad), or give the loader a collate_fn for ragged samples.",
        operands=(Operand(sample_text(fetching, position), describe(leaf)),),
    )


def _shape(leaf: Any) -> tuple[int, ...] | None:
    if isinstance(leaf, torch.Tensor) or is_array(leaf):
        return tuple(leaf.shape)
    return None


def _odd_one(samples: list[Any]) -> tuple[int, str, tuple[int, ...], tuple[int, ...]] | None:
    """Position, path and shape of the first leaf that differs from what most samples have there."""
    columns: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    for position, sample in enumerate(samples):
        for path, leaf in leaves_of(sample):
            shape = _shape(leaf)
            if shape is not None:
                columns.setdefault(path, []).append((position, shape))
    for path, column in columns.items():
        usual, _ = Counter(shape for _, shape in column).most_common(1)[0]
        for position, shape in column:
            if shape != usual:
                return position, path, shape, usual
    return None


def _differing_axis(shape: tuple[int, ...], usual: tuple[int, ...]) -> int | None:
    if len(shape) != len(usual):
        return None
    return next(axis for axis in range(-len(shape), 0) if shape[axis] != usual[axis])


def _axis_in_words(shape: tuple[int, ...], usual: tuple[int, ...], axis: int | None) -> str:
    if axis is None:
        return f"This one has {len(shape)} axes, the others {len(usual)}."
    return f"Axis {axis + len(shape)} is {shape[axis]} here and {usual[axis]} elsewhere."


def _trail(
    failed: FailedCall, fetching: Fetching, position: int, leaf: Any, shape: tuple[int, ...], usual: tuple[int, ...]
) -> Trail:
    axis = _differing_axis(shape, usual)
    fixed = _where_others_become_alike(failed, fetching, position, leaf, axis, usual)
    fixed = fixed or _where_usual_size_is_made(failed, fetching, leaf, axis, usual)
    if fixed is not None:
        return fixed
    prop = HasAxis(axis if axis is not None else -1, shape[axis if axis is not None else -1] if shape else 0)
    scene = replace(failed, frames=[frame for frame, _ in reversed(fetching.returns[position])] + failed.frames)
    if isinstance(leaf, torch.Tensor):
        found = trace(failed.value(leaf), prop, scene)
        if found.spot is not None and found.birth is not Birth.UNKNOWN:
            return found
    found = trace_returned(leaf, fetching.returns[position], prop, scene)
    if found.spot is not None:
        return found
    made = fetching.returns[position]
    return Trail(Birth.SAMPLE, Spot.of_site(Site.of(made[-1][0])) if made else None)


def _where_others_become_alike(
    failed: FailedCall, fetching: Fetching, position: int, leaf: Any, axis: int | None, usual: tuple[int, ...]
) -> Trail | None:
    """The call that gives samples of different length one length: a padding that leaves out what is too long, say.

    The odd sample went through it, or through the function that it stands in.
    """
    if axis is None or not isinstance(leaf, torch.Tensor):
        return None
    others = [one for each in fetching.samples for _, one in leaves_of(each) if _shape(one) == usual]
    chains = [_sizes(failed.value(each), axis) for each in others[:MOST_COMPARED] if isinstance(each, torch.Tensor)]
    codes = {frame.f_code for frame, _ in fetching.returns[position]}
    for one, other in combinations(chains, 2):
        call = _first_alike(one, other)
        if call is not None and call.site is not None and call.site.f_code in codes:
            return Trail(Birth.CALL, Spot.of_site(call.site), op=call.name, phase="data")
    return None


def _sizes(value: Value, axis: int) -> list[tuple[Call, int, list[int]]]:
    """Back from a value over those that gave it the size of an axis: the calls, and the size after and before each."""
    found: list[tuple[Call, int, list[int]]] = []
    while value.call is not None and len(found) < LONGEST_CHAIN:
        sources = axis_source(value.call, value, axis) or []
        found.append((value.call, value.shape[axis], [each.shape[at] for each, at in sources]))
        if len(sources) != 1:
            break
        value, axis = sources[0]
    return found


def _first_alike(one: list[tuple[Call, int, list[int]]], other: list[tuple[Call, int, list[int]]]) -> Call | None:
    """The call after which two values have one size, if both came by it with different sizes."""
    for (call, size, before), (same, likewise, then) in zip(one, other, strict=False):
        if call.site != same.site or size != likewise:
            return None
        if before != then:
            return call
    return None


def _where_usual_size_is_made(
    failed: FailedCall, fetching: Fetching, leaf: Any, axis: int | None, usual: tuple[int, ...]
) -> Trail | None:
    """The line that gives all other samples their size, if the odd one passed it too: a crop that found too little."""
    if axis is None or not isinstance(leaf, torch.Tensor):
        return None
    other = next(
        (
            dict(leaves_of(each)).get(path)
            for each in fetching.samples
            for path, one in leaves_of(each)
            if _shape(one) == usual
        ),
        None,
    )
    if not isinstance(other, torch.Tensor):
        return None
    made = trace(failed.value(other), HasAxis(axis, usual[axis]), failed)
    passed = {
        (Spot.of_site(call.site).file, Spot.of_site(call.site).line)
        for call in ancestors(failed.value(leaf))
        if call.site is not None
    }
    if made.spot is None or made.birth is not Birth.CALL or (made.spot.file, made.spot.line) not in passed:
        return None
    return made
