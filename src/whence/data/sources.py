"""Iterate any data (arrays, frames, structures, datasets, loaders, generators) as batches."""

from __future__ import annotations

import dataclasses
import itertools
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    TensorDataset,
    default_collate,
)

from whence.data.arrays import Part, Words, is_array
from whence.data.leaves import MOST_FIELDS, Leaf, is_frame, is_plain_list, leaves_of
from whence.devices import random_state, restore_random_state

SAMPLES_AT_ONCE = 256

IsSample = Callable[[list[Leaf]], bool]


def batches_of(data: Any, is_sample: IsSample) -> Iterator[list[Leaf]]:
    """Iterate the data once. `is_sample` decides ambiguous cases: one sample, or a batch."""
    if isinstance(data, TensorDataset):
        yield list(leaves_of(data.tensors))
    elif isinstance(data, DataLoader) and data.batch_sampler is not None:
        reader = BatchReader(data.collate_fn)
        for batch, size in zip(data, _sizes(data)):  # noqa: B905 (the sizes are without end)
            yield from reader.read(batch, size)
    elif isinstance(data, DataLoader):
        yield from _one_by_one(data, is_sample)
    elif is_one_batch(data):
        leaves = list(leaves_of(data))
        yield [leaf.as_one_row() for leaf in leaves] if is_sample(leaves) else leaves
    elif isinstance(data, IterableDataset):
        yield from _stacked(list(leaves_of(each)) for each in data)
    elif isinstance(data, list):
        yield from _one_by_one(data, is_sample)
    elif isinstance(data, Dataset) or (hasattr(data, "__getitem__") and hasattr(data, "__len__")):
        yield from _stacked(list(leaves_of(data[place])) for place in range(len(data)))
    else:
        yield from _one_by_one(data, is_sample)


def _sizes(loader: DataLoader[Any]) -> Iterator[int | None]:
    """Number of samples per batch, as far as it is known beforehand."""
    known = type(loader.batch_sampler) is BatchSampler and loader.batch_size is not None
    total = len(loader.sampler) if known and isinstance(loader.sampler, Sized) else None
    for number in itertools.count():
        left = total - number * (loader.batch_size or 0) if total is not None else 0
        yield min(loader.batch_size or 0, left) if total is not None else None


class BatchReader:
    """Read what a loader yields.

    Some collate functions keep samples as they are, or sort their parts into one list each: images
    of many sizes, and boxes.
    """

    def __init__(self, collate: Any) -> None:
        self._puts_together = collate is default_collate
        self._sorts: bool | None = None
        """Set by the first unambiguous batch: two lists of two may be either."""

    def read(self, batch: Any, size: int | None) -> Iterator[list[Leaf]]:
        """Read a batch made of this many samples."""
        if (
            size is None
            or self._puts_together
            or not isinstance(batch, list | tuple)
            or hasattr(batch, "_fields")
        ):
            yield list(leaves_of(batch))
            return
        parts = [
            each
            for each in batch
            if isinstance(each, list | tuple) and not hasattr(each, "_fields")
        ]
        is_left = len(batch) == size > 1 and _are_alike(batch)
        is_sorted = len(parts) == len(batch) > 0 and all(len(each) == size for each in parts)
        if is_left != is_sorted:
            self._sorts = is_sorted
        if is_sorted and self._sorts:
            yield from _stacked(_leaves_at(parts, number) for number in range(size))
        elif is_left and self._sorts is False:
            yield from _stacked(list(leaves_of(each, "[i]")) for each in batch)
        else:
            yield list(leaves_of(batch))


def _leaves_at(parts: list[Any], number: int) -> list[Leaf]:
    """Collect one sample, whose parts are at the same index of several lists."""
    return [
        leaf
        for place, each in enumerate(parts)
        for leaf in leaves_of(each[number], f"[{place}][i]")
    ]


def _are_alike(samples: Sequence[Any]) -> bool:
    """Whether things are dicts with the same keys, tuples of one length, or of one dataclass.

    Arrays may instead be the parts of one batch.
    """
    first = samples[0]
    if any(type(each) is not type(first) for each in samples):
        return False
    if isinstance(first, Mapping):
        return all(each.keys() == first.keys() for each in samples)
    if isinstance(first, tuple):
        return all(len(each) == len(first) for each in samples)
    return dataclasses.is_dataclass(first)


def is_one_batch(data: Any) -> bool:
    """Whether a thing is an array, a frame or a structure of them.

    A list of structures is a list of batches.
    """
    if (
        is_array(data)
        or is_frame(data)
        or isinstance(data, Mapping | tuple | str | bytes | int | float | None)
    ):
        return True
    if dataclasses.is_dataclass(data) and not isinstance(data, Dataset):
        return True
    if isinstance(data, list):
        structured = all(
            isinstance(each, Mapping | tuple) or dataclasses.is_dataclass(each) for each in data
        )
        return is_plain_list(data) or not (structured or len(data) > MOST_FIELDS)
    return not isinstance(data, Iterable) and not hasattr(data, "__getitem__")


def looks_like_sample(leaves: list[Leaf]) -> bool:
    """Guess whether an item of a stream is a sample: it has a plain number, or uneven leaves."""
    if any(not leaf.shape for leaf in leaves):
        return True
    return len({leaf.rows for leaf in leaves}) > 1


def _one_by_one(items: Iterable[Any], is_sample: IsSample) -> Iterator[list[Leaf]]:
    stream = (list(leaves_of(each)) for each in items)
    first = next(stream, None)
    if first is None:
        return
    if is_sample(first):
        yield from _stacked(_chain(first, stream))
    else:
        yield first
        yield from stream


def _chain(first: list[Leaf], rest: Iterator[list[Leaf]]) -> Iterator[list[Leaf]]:
    yield first
    yield from rest


def _stacked(samples: Iterator[list[Leaf]]) -> Iterator[list[Leaf]]:
    """Batch samples with the same leaves and shapes; others become batches of one."""
    waiting: list[list[Leaf]] = []
    for sample in samples:
        waiting.append(sample)
        if len(waiting) == SAMPLES_AT_ONCE:
            yield from _stack(waiting)
            waiting = []
    yield from _stack(waiting)


def _stack(samples: list[list[Leaf]]) -> Iterator[list[Leaf]]:
    if not samples:
        return
    paths = [leaf.path for leaf in samples[0]]
    if all([leaf.path for leaf in each] == paths for each in samples):
        together = [_stack_leaf([each[place] for each in samples]) for place in range(len(paths))]
        whole = [leaf for leaf in together if leaf is not None]
        if len(whole) == len(together):
            yield whole
            return
    for each in samples:
        yield [leaf.as_one_row() for leaf in each]


def _stack_leaf(leaves: list[Leaf]) -> Leaf | None:
    parts = [leaf.part for leaf in leaves if leaf.part is not None]
    first = parts[0] if len(parts) == len(leaves) else None
    if first is None or any(part.shape != first.shape for part in parts):
        return None
    shape = (len(parts), *first.shape)
    numbers = [part.numbers for part in parts if part.numbers is not None]
    if len(numbers) == len(parts) and (dtype := _common_dtype(parts)) is not None:
        like = torch.float64 if len({each.dtype for each in numbers}) > 1 else numbers[0].dtype
        return Leaf(
            leaves[0].path,
            replace(
                first,
                shape=shape,
                dtype=dtype,
                numbers=torch.stack([each.to(like) for each in numbers]),
            ),
        )
    if all(part.words is not None or _is_gap(part) for part in parts) and not first.shape:
        words = [None if part.words is None else part.words.take(0, 1)[0] for part in parts]
        return Leaf(
            leaves[0].path,
            Part(shape, "str", words=Words(len(words), lambda start, stop: words[start:stop])),
        )
    return None


def _is_gap(part: Part) -> bool:
    """Whether None occurs among words; on its own it would read as a missing number."""
    return part.numbers is not None and not part.shape and bool(torch.isnan(part.numbers))


def _common_dtype(parts: list[Part]) -> str | None:
    dtypes = {part.dtype for part in parts}
    if len(dtypes) == 1:
        return dtypes.pop()
    return "float64" if dtypes == {"int64", "float64"} and not parts[0].shape else None


@contextmanager
def random_streams_kept(data: Any) -> Iterator[None]:
    """Restore all random states: loaders draw from torch's generators, augmentations from any."""
    generators = [each for each in _generators_of(data) if isinstance(each, torch.Generator)]
    own = [each.get_state() for each in generators]
    plain, tensors = random.getstate(), random_state()
    numpy = sys.modules.get("numpy.random")
    arrays = numpy.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(plain)
        restore_random_state(tensors)
        if numpy is not None:
            numpy.set_state(arrays)
        for generator, state in zip(generators, own, strict=True):
            generator.set_state(state)


def _generators_of(data: Any) -> list[Any]:
    if not isinstance(data, DataLoader):
        return []
    return [
        getattr(holder, "generator", None) for holder in (data, data.sampler, data.batch_sampler)
    ]
