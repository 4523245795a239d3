"""Samples of different sizes, which cannot be stacked."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.datasets.cuts import late_start
from whence.lineage.datasets.departure import departure
from whence.lineage.datasets.samples import trace_returned
from whence.lineage.looking import is_array, picture_shape
from whence.lineage.properties import HasAxis
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.data.corrupt import named, redrawn_text, sample_text
from whence.rules.data.stacked import ragged_stack
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.batches import leaves_of
from whence.tape.failed import FailedCall, Fetching, Stage


@rule("data/ragged-samples")
def ragged_samples(failed: FailedCall) -> Finding | None:
    """Samples of different sizes cannot be stacked.

    What happened
        Samples are stacked into one tensor, by the default collate function or by the program, and
        one of them has another shape.
    Why it matters
        The message counts entries; the finding gives the dataset index, the file, and the line.
    How it is detected
        The batch is fetched again in a child process. The lines that created the sample with the
        unusual shape are compared with those of the others, back to where all had one size. If the
        others differed too, the line that should equalize them is reported: a padding that keeps
        the longest samples. If a later line changes the size again, that line is reported. If a
        crop starts too late in a sample that is long enough, the line that draws the start is.
    How to fix it
        Convert, resize or pad the sample in the dataset, or write a collate_fn for ragged samples.
    When it stays silent
        Samples that stack.
    Cost
        None until a fetch fails; then one batch is fetched again.
    """
    fetching = failed.fetching
    if fetching is None:
        return ragged_stack(failed)
    if fetching.stage is not Stage.COLLATING or not fetching.samples:
        return None
    odd = _odd_one(fetching.samples)
    if odd is None:
        return None
    position, path, shape, usual = odd
    sample = named(fetching, position, path)
    leaf = dict(leaves_of(fetching.samples[position]))[path]
    trail, alike = _trail(failed, fetching, position, path, shape, usual)
    axis = _differing_axis(shape, usual)
    frames = (
        [frame for frame, _ in fetching.returns[position]]
        if axis is not None and shape[axis] < usual[axis]
        else []
    )
    if axis is not None and trail.spot is not None:
        begin = late_start(trail.spot, axis, usual[axis], frames)
        trail = (
            replace(trail, spot=begin, hops=(trail.spot.hop("cropped here"), *trail.hops))
            if begin is not None
            else trail
        )
    return failure_finding(
        failed,
        "data/ragged-samples",
        verdict=f"{sample_text(fetching, position)} is {shape_text(shape)}, "
        f"the others are {shape_text(usual)}",
        trail=replace(trail, sample=sample, phase="data"),
        why="All samples of a batch need one shape. "
        + _axis_in_words(shape, usual, axis)
        + (
            f" {alike.file}:{alike.line} gave them one size, and this line changes it again."
            if alike is not None
            else ""
        )
        + redrawn_text(fetching),
        fix="Give this sample the shape of the others in the dataset (convert, resize, pad), or "
        "pass a collate_fn for ragged samples to the loader."
        if alike is None
        else "Move the step that equalizes the size (pad, crop, resize) after this line.",
        operands=(Operand(sample_text(fetching, position), describe(leaf)),),
    )


def _shape(leaf: Any) -> tuple[int, ...] | None:
    if isinstance(leaf, torch.Tensor) or is_array(leaf):
        return tuple(leaf.shape)
    return picture_shape(leaf)


def _odd_one(samples: list[Any]) -> tuple[int, str, tuple[int, ...], tuple[int, ...]] | None:
    """Position, path and shape of the first leaf whose shape differs from the most common one."""
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
        return f"This sample has {len(shape)} axes, the others {len(usual)}."
    return f"Axis {axis + len(shape)} has size {shape[axis]}, in the others {usual[axis]}."


def _trail(
    failed: FailedCall,
    fetching: Fetching,
    position: int,
    path: str,
    shape: tuple[int, ...],
    usual: tuple[int, ...],
) -> tuple[Trail, Spot | None]:
    """The trail to where the sample departs; also the line that gave all one size, if undone."""
    others = [
        course
        for sample, course in zip(fetching.samples, fetching.courses, strict=False)
        if _shape(dict(leaves_of(sample)).get(path)) == usual
    ]
    found = departure(fetching.courses[position], others, path)
    if found is not None:
        return Trail(Birth.SAMPLE, found.spot, found.hops, phase="data"), found.alike
    leaf = dict(leaves_of(fetching.samples[position]))[path]
    axis = _differing_axis(shape, usual)
    prop = HasAxis(
        axis if axis is not None else -1, shape[axis if axis is not None else -1] if shape else 0
    )
    scene = replace(
        failed, frames=[frame for frame, _ in reversed(fetching.returns[position])] + failed.frames
    )
    if isinstance(leaf, torch.Tensor):
        trail = trace(failed.value(leaf), prop, scene)
        if trail.spot is not None and trail.birth is not Birth.UNKNOWN:
            return trail, None
    trail = trace_returned(leaf, fetching.returns[position], prop, scene)
    if trail.spot is not None:
        return trail, None
    made = fetching.returns[position]
    return Trail(Birth.SAMPLE, Spot.of_site(Site.of(made[-1][0])) if made else None), None
