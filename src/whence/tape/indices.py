"""What a sampler gave, as a list of dataset indices."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import Any


def packed(indices: Any) -> Any:
    """What a sampler gave, to be kept: numbers in a block, whose objects need not live on. A list may be used again by the program."""
    if type(indices) is list:
        if indices and type(indices[0]) is int:
            try:
                return array("q", indices)
            except (TypeError, OverflowError):
                pass
        return indices.copy()
    return indices


def listed(indices: Any, batched: bool) -> list[Any] | None:
    """One entry for each sample, with plain numbers in place of those in tensors and arrays; None if they cannot be told.

    Where the sampler gives batches, anything that can be gone through twice is a batch. Elsewhere it gives one index, which may be
    a tuple; a list or an array of them is how a dataset is asked for several samples at once.
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
        # The dataset is the one to go through it.
        return None
    return [_plain(each) for each in indices]


def _plain(index: Any) -> Any:
    return index.item() if getattr(index, "ndim", None) == 0 and hasattr(index, "item") else index
