"""A batch of another size than the others: the line at which what it was made of departs from what those were made of.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from whence.lineage.datasets.asking import random_states, set_random_states
from whence.lineage.datasets.courses import Course, Size, size_of
from whence.lineage.datasets.departure import MOST_COMPARED, Departure, departure
from whence.lineage.datasets.workers import be_worker
from whence.lineage.properties import HasAxis
from whence.tape.batches import BatchLeaf, leaves_of

MOST_READ = 5_000
FEWEST = 2

Followed = tuple[Any, Course]
"""A sample, and how it was made."""


def deviation(leaf: BatchLeaf, prop: HasAxis) -> Departure | None:
    """None where all samples are of that size, or the others are of many."""
    info, indices = leaf.batch.info, leaf.batch.indices
    with suppress(Exception):
        be_worker(info, leaf.batch.worker)
    if info.is_iterable:
        return deviation_in(lambda: info.dataset, leaf.path, prop)
    return _among(_asked_for(info.dataset, indices[0]), leaf.path, prop) if indices else None


def deviation_in(opened: Callable[[], Iterable[Any]], path: str, prop: HasAxis) -> Departure | None:
    """The same for what can be opened anew, and gives one thing after the other."""
    return _among(_streamed(opened, path, prop), path, prop)


def _among(made: list[Followed], path: str, prop: HasAxis) -> Departure | None:
    sized = [(size, course) for sample, course in made if (size := _size(sample, path)) is not None]
    odd = next((each for each in reversed(sized) if _has(each[0], prop)), None)
    others = [each for each in sized if not _has(each[0], prop)]
    if odd is None or len(others) < FEWEST or len({size for size, _ in others}) > 1:
        return None
    return departure(odd[1], [course for _, course in others], path)


def _size(sample: Any, path: str) -> Size | None:
    return size_of(dict(leaves_of(sample)).get(path))


def _has(size: Size | None, prop: HasAxis) -> bool:
    return size is not None and len(size) >= -prop.axis and size[prop.axis] == prop.size


def _streamed(opened: Callable[[], Iterable[Any]], path: str, prop: HasAxis) -> list[Followed]:
    """The first sample of that size, and those just before it: it is known only afterwards which these are."""
    states = random_states()
    reading = enumerate(islice(opened(), MOST_READ))
    number = next((k for k, sample in reading if _has(_size(sample, path), prop)), None)
    if number is None:
        return []
    set_random_states(states)
    again = iter(opened())
    for _ in islice(again, max(number - MOST_COMPARED, 0)):
        pass
    return [_followed(lambda: next(again)) for _ in range(min(number, MOST_COMPARED) + 1)]


def _asked_for(dataset: Any, index: Any) -> list[Followed]:
    """Some samples from all over a dataset, and then the one in question."""
    return [
        _followed(lambda each=each: dataset[each])  # type: ignore[misc]
        for each in (*_elsewhere(dataset, index), index)
    ]


def _elsewhere(dataset: Any, index: Any) -> Iterator[int]:
    if not isinstance(index, int) or not hasattr(dataset, "__len__"):
        return
    count = len(dataset)
    yield from (each for each in range(0, count, max(count // MOST_COMPARED, 1)) if each != index)


def _followed(make: Callable[[], Any]) -> Followed:
    course = Course()
    with course.followed():
        return make(), course
