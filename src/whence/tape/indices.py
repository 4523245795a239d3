"""A sampler's output as a list of dataset indices."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any


def packed(indices: Any) -> Any:
    """Pack a sampler's output for storage.

    Integers go into an array, so that their objects can be freed. A list is copied, because the
    program may reuse it.
    """
    if type(indices) is list:
        if indices and type(indices[0]) is int:
            try:
                return array("q", indices)
            except (TypeError, OverflowError):
                pass
        return indices.copy()
    return indices


def listed(indices: Any, batched: bool) -> list[Any] | None:
    """Return one index per sample, or None if the indices are unknown.

    Values in tensors and arrays become plain ones. If the sampler yields batches, any re-iterable
    object is a batch. Otherwise it yields one index, which may be a tuple; a list or an array then
    requests several samples at once.
    """
    if indices is None:
        return None
    if isinstance(indices, array):
        return indices.tolist()
    if hasattr(indices, "tolist"):
        numbers = indices.tolist()
        return numbers if isinstance(numbers, list) else [numbers]
    if not batched and not isinstance(indices, list):
        return [indices]
    if isinstance(indices, Iterator) or not hasattr(indices, "__iter__"):
        # Only the dataset may iterate over it.
        return None
    return [_plain(each) for each in indices]


def _plain(index: Any) -> Any:
    return index.item() if getattr(index, "ndim", None) == 0 and hasattr(index, "item") else index
