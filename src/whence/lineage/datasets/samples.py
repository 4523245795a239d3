"""Lineage through a DataLoader: fetch the samples again, aside, and follow one of them into the dataset's code."""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from whence.finding import Sample
from whence.lineage.datasets.asking import random_states, set_random_states
from whence.lineage.datasets.deviating import deviation
from whence.lineage.datasets.workers import be_worker
from whence.lineage.following.trace import SourceTrace
from whence.lineage.grounds import ground_of
from whence.lineage.lines import Counts, LineWatch
from whence.lineage.looking import is_array
from whence.lineage.properties import HasAxis, HasElement, Property
from whence.lineage.tables import is_column, labels_in
from whence.lineage.trail import Birth, Trail, trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.sites import Site, is_library, user_frames, variables
from whence.source.spots import Spot
from whence.source.text import statement_of
from whence.tape.batches import BatchLeaf, LoaderInfo, leaves_of
from whence.tape.randomness import restore
from whence.tape.tape import Value

if TYPE_CHECKING:
    from whence.tape.scene import Scene

MOST_SAMPLES = 512
MOST_STREAMED = 5_000
MOST_RETURNS = 2_000


@dataclass(slots=True)
class Fetch:
    """Samples fetched again, with the frames of the user's functions that made them."""

    samples: list[Any] = field(default_factory=list)
    returns: list[list[tuple[FrameType, Any]]] = field(default_factory=list)
    """For each sample, the user's functions that returned while it was made, in that order, and what they returned."""

    def frames(self) -> list[FrameType]:
        return [frame for made in self.returns for frame, _ in reversed(made)]


Callers = dict[FrameType, tuple[FrameType, int]]
"""For functions that returned, who of the user's functions called them, and in which line."""


@contextmanager
def returning_frames(
    found: list[tuple[FrameType, Any]], callers: Callers | None = None
) -> Iterator[None]:
    """Collect the user's functions that return, with their frames."""

    def note(frame: FrameType, event: str, value: Any) -> None:
        if (
            event == "return"
            and len(found) < MOST_RETURNS
            and not is_library(frame.f_code.co_filename)
        ):
            found.append((frame, value))
            outer = next(iter(user_frames(frame.f_back)), None) if callers is not None else None
            if callers is not None and outer is not None:
                callers[frame] = outer, outer.f_lineno

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(before)


def fetch_again(dataset: Any, indices: list[Any]) -> Fetch:
    """Fetch samples as a map-style dataset gives them. Runs the program's code: only ever in a child process."""
    fetch = Fetch()
    for index in indices[:MOST_SAMPLES]:
        made: list[tuple[FrameType, Any]] = []
        with returning_frames(made):
            sample = dataset[index]
        fetch.samples.append(sample)
        fetch.returns.append(made)
    return fetch


def trace_into_batch(leaf: BatchLeaf, value: Value, prop: Property, scene: Scene) -> Trail:
    """Go on from a tensor of a batch to the sample and the line of the dataset that made it so."""
    info, indices = leaf.batch.info, leaf.batch.indices
    if info.dataset is not None and isinstance(prop, HasAxis):
        with suppress(NotPossible):
            if (
                found := run_in_child(lambda: deviation(leaf, prop), need=Need.SAMPLES)
            ) is not None:
                sample = Sample(batch=leaf.batch.number, leaf=leaf.path)
                return Trail(Birth.SAMPLE, found.spot, found.hops, phase="data", sample=sample)
    if info.dataset is not None and info.collate is not None and indices is not None:
        try:
            return run_in_child(
                lambda: _trace_there(info, indices, leaf, prop, scene), need=Need.SAMPLES
            )
        except NotPossible:
            pass
    if info.dataset is not None and info.is_iterable and prop.shows_in_lines:
        try:
            if (
                trail := run_in_child(lambda: _in_stream(info, leaf, prop), need=Need.STREAM)
            ) is not None:
                return trail
        except NotPossible:
            pass
    if value.call is not None:
        return trace(replace(value, leaf=None), prop, scene)
    sample = Sample(batch=leaf.batch.number, leaf=leaf.path)
    stack = leaf.batch.info.stack
    return Trail(
        Birth.SAMPLE if stack else Birth.UNKNOWN,
        Spot.of_site(stack[0]) if stack else None,
        sample=sample,
    )


def _trace_there(
    info: LoaderInfo, indices: list[Any], leaf: BatchLeaf, prop: Property, scene: Scene
) -> Trail:
    everything: list[tuple[FrameType, Any]] = []
    with suppress(Exception):
        be_worker(info, leaf.batch.worker)
    restore(leaf.batch.streams)
    with scene.record():
        fetch = fetch_again(info.dataset, indices)
        with returning_frames(everything):
            batch = info.collated(fetch.samples)
    position, path = _position(fetch.samples, leaf.path, prop)
    named = position if position is not None else 0
    inner = replace(
        scene, frames=[*(frame for frame, _ in everything), *fetch.frames(), *scene.frames]
    )
    sample = Sample(
        batch=leaf.batch.number,
        position=position,
        dataset_index=_plain(indices[position]) if position is not None else None,
        leaf=leaf.path,
        path=file_of(fetch.returns[named]) if fetch.returns else None,
    )
    one = dict(leaves_of(fetch.samples[named])).get(path, _MISSING)
    if (
        prop.shows_in_lines
        and position is not None
        and (trail := _by_lines(info, indices[: position + 1], leaf, prop, scene))
    ):
        earlier = _made_before(one, prop, inner) if trail.birth is Birth.SOURCE else None
        return _without_here(replace(earlier or trail, sample=sample))
    collated = dict(leaves_of(batch)).get(leaf.path)
    if isinstance(one, int | float) and isinstance(collated, torch.Tensor) and collated.dim() > 1:
        # The collating has put something else in this place.
        one = _MISSING
    if not _only_together(one, collated, prop) and (
        is_array(one) or isinstance(one, int | float) or type(one).__module__ == "numpy"
    ):
        trail = trace_returned(one, fetch.returns[named], prop, inner)
        if trail.spot is not None and isinstance(one, int | float):
            trail = replace(trail, birth=Birth.NUMBER)
    else:
        # What no sample has by itself, the number of rows say, the collating has given it.
        tensor = (
            one
            if isinstance(one, torch.Tensor) and not _only_together(one, collated, prop)
            else collated
        )
        trail = (
            trace(scene.tape.value_of(tensor), prop, inner)
            if isinstance(tensor, torch.Tensor)
            else Trail(Birth.UNKNOWN)
        )
    if trail.birth is Birth.UNKNOWN or trail.spot is None:
        trail = trace_returned(one, fetch.returns[named], prop, inner)
    return _without_here(replace(trail, sample=sample))


def _without_here(trail: Trail) -> Trail:
    """What a library's dataset did when it was asked again was noted at the line where the program stands now."""
    frame = next(iter(user_frames(sys._getframe())), None)
    here = Spot.of_site(Site.of(frame)) if frame is not None else None
    hops = tuple(
        each
        for each in trail.hops
        if here is None or (each.file, each.line) != (here.file, here.line)
    )
    return replace(trail, hops=hops)


def _made_before(sample: Any, prop: Property, scene: Scene) -> Trail | None:
    """The dataset hands out what it was made with: the call that made that so, if it is on the tape."""
    trail = (
        trace(scene.tape.value_of(sample), prop, scene)
        if isinstance(sample, torch.Tensor)
        else None
    )
    return trail if trail is not None and trail.birth is Birth.CALL else None


def _by_lines(
    info: LoaderInfo, indices: list[Any], leaf: BatchLeaf, prop: Property, scene: Scene
) -> Trail | None:
    """A value that came to be while the last of some samples was made: the line after which it was there."""
    *earlier, index = indices
    if leaf.batch.streams:
        # Those before it draw from the same random numbers.
        restore(leaf.batch.streams)
        fetch_again(info.dataset, earlier)
    watch = LineWatch(prop, Counts.LASTING)
    watch.during(lambda: info.dataset[index])
    found = watch.spot(leaf.path)
    if found is not None:
        return Trail(Birth.SAMPLE, found[0], op=found[1], phase="data")
    if watch.source is None:
        return None
    frame, node = watch.source
    ground = ground_of((Site.of(frame),), [frame])
    if ground is None or not isinstance(node, ast.expr):
        return None
    columns = _columns_shown(frame, ground.scope, prop) if watch.has_row else []
    if watch.has_row and not columns:
        return Trail(Birth.SAMPLE, Spot.of_node(ground.filename, node), phase="data")
    search = SourceTrace(prop, [frame, *scene.frames], scene.worked_before)
    upstream = search.follow_path(node, ground, tuple(columns[:1]))
    return Trail(Birth.SOURCE, upstream.spot, upstream.hops) if upstream.spot is not None else None


def _columns_shown(frame: FrameType, scope: ast.AST, prop: Property) -> list[str]:
    """The columns of a table of which a variable has a row: those that show the property there, and that the function reads."""
    rows = [each for each in variables(frame).values() if is_column(each) and prop.holds(each)]
    names = {name for row in rows for name in labels_in(row, lambda each: bool(prop.holds(each)))}
    read = [
        each.value
        for each in ast.walk(scope)
        if isinstance(each, ast.Constant) and each.value in names
    ]
    return [str(each) for each in read] or (list(names) if len(names) == 1 else [])


def _in_stream(info: LoaderInfo, leaf: BatchLeaf, prop: Property) -> Trail | None:
    """The stream, read anew to the first sample that has it: the line that made it, while that sample was read or before."""
    states = random_states()
    number = next(
        (k for k, each in enumerate(islice(info.dataset, MOST_STREAMED)) if _has(each, leaf, prop)),
        None,
    )
    if number is None:
        return None
    for skipped in (number, 0):
        set_random_states(states)
        found = _read_with_care(info.dataset, skipped, leaf, prop)
        if found is not None:
            sample = Sample(batch=leaf.batch.number, leaf=leaf.path)
            return Trail(Birth.SAMPLE, found[0], op=found[1], phase="data", sample=sample)
    return None


def _has(sample: Any, leaf: BatchLeaf, prop: Property) -> bool:
    return bool(prop.holds(dict(leaves_of(sample)).get(leaf.path)))


def _read_with_care(
    stream: Any, skipped: int, leaf: BatchLeaf, prop: Property
) -> tuple[Spot, str | None] | None:
    """Read a stream with an eye on every line, once some samples have gone by. The last line that made one so counts."""
    watch = LineWatch(prop, Counts.LAST)
    reading = iter(stream)
    for _ in islice(reading, skipped):
        pass
    given = watch.during(
        lambda: any(_has(each, leaf, prop) for each in islice(reading, MOST_STREAMED))
    )
    return watch.spot(leaf.path) if given else None


def _only_together(sample: Any, collated: Any, prop: Property) -> bool:
    if not isinstance(collated, torch.Tensor):
        return False
    # A number of Python's has a type only in a batch, and that is no doing of the collating, unless it is one of another kind.
    cut = isinstance(sample, float) and not collated.is_floating_point()
    may_have = isinstance(sample, torch.Tensor) or prop.singles_out or cut
    return may_have and prop.holds(sample) is False and prop.holds(collated) is True


_MISSING = object()


def _position(samples: list[Any], path: str, prop: Property) -> tuple[int | None, str]:
    """The sample that has the property, if one has it and not simply all of them, and where in it.

    A collate function may put the parts of samples at other places: then it is the only part that has it in any of them.
    """
    if not prop.singles_out:
        return None, path
    parts = [(number, dict(leaves_of(sample))) for number, sample in enumerate(samples)]
    for number, leaves in parts:
        if prop.holds(leaves.get(path)):
            return number, path
    found = [
        (number, each)
        for number, leaves in parts
        for each, leaf in leaves.items()
        if prop.holds(leaf)
    ]
    return found[0] if len({each for _, each in found}) == 1 else (None, path)


def _plain(index: Any) -> int | None:
    try:
        return int(index)
    except (TypeError, ValueError):
        return None


def file_of(returns: list[tuple[FrameType, Any]]) -> str | None:
    """A file that the code which made the sample has in a local variable."""
    for frame, _ in reversed(returns):
        for thing in variables(frame).values():
            if (
                isinstance(thing, str | os.PathLike)
                and len(os.fspath(thing)) > 2
                and os.path.isfile(thing)
            ):
                return os.fspath(thing)
    return None


def trace_returned(
    thing: Any, returns: list[tuple[FrameType, Any]], prop: Property, scene: Scene
) -> Trail:
    """From an object that a function of the program returned, to the expression that made it."""
    for frame, returned in returns:
        path = _path_to(thing, returned)
        if path is None:
            continue
        statement = Site.of(frame).statement()
        expression = getattr(statement, "value", None)
        ground = ground_of((Site.of(frame),), [frame, *scene.frames])
        if expression is None or ground is None:
            continue
        ground = replace(ground, frame=frame)
        search = SourceTrace(prop, [frame, *scene.frames], scene.worked_before)
        found = search.follow_path(expression, ground, path)
        if found.spot is not None:
            handed_over = search.part_of(expression, ground, path)
            spot = (
                Spot.of_node(ground.filename, handed_over)
                if _is_only_unpacked(found.spot, prop)
                else found.spot
            )
            return Trail(Birth.SAMPLE, spot, found.hops, phase="data", column=found.column)
    return Trail(Birth.UNKNOWN)


def _is_only_unpacked(spot: Spot, prop: Property) -> bool:
    """`text, label = self.rows[i]`: a number is read there as it was stored. What can be done about it is done behind it."""
    node = spot.node()
    statement = statement_of(node) if node is not None else None
    if not isinstance(prop, HasElement) or not isinstance(statement, ast.Assign):
        return False
    reads = not any(isinstance(each, ast.Call | ast.BinOp) for each in ast.walk(statement.value))
    return reads and any(isinstance(each, ast.Tuple | ast.List) for each in statement.targets)


def _path_to(thing: Any, tree: Any) -> tuple[int | str, ...] | None:
    """How to get from a returned value to a part of it."""
    if tree is thing:
        return ()
    if isinstance(tree, dict):
        parts: Iterator[tuple[Any, Any]] = iter(tree.items())
    elif isinstance(tree, list | tuple):
        parts = enumerate(tree)
    else:
        return None
    for key, each in parts:
        below = _path_to(thing, each)
        if below is not None:
            return (key, *below)
    return None
