"""Calls that look up by index: which tensor holds the indices, and the size of the lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from whence.rules.operations import CLASS_LOSSES, loss_operands
from whence.tape.failed import FailedCall

IGNORED = -100


@dataclass(frozen=True, slots=True)
class Beyond:
    """An index that is out of range."""

    index: torch.Tensor
    place: tuple[int, ...]
    value: int
    size: int


def out_of_range(failed: FailedCall) -> Beyond | None:
    """The first wrong element of an index tensor."""
    index, size, exempt = _indexing(failed)
    if index is None or size is None or not _holds_indices(index):
        return None
    wrong = (index >= size) | (index < (-size if failed.name == "__getitem__" else 0))
    if exempt is not None:
        wrong &= index != exempt
    places = wrong.nonzero()
    if not len(places):
        return None
    place = tuple(int(each) for each in places[0])
    return Beyond(index, place, int(index[place]), size)


INDICES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _holds_indices(tensor: torch.Tensor) -> bool:
    return (
        tensor.dtype in INDICES
        and tensor.layout is torch.strided
        and not tensor.is_meta
        and tensor.numel() > 0
    )


def _are_pixels(prediction: torch.Tensor, target: torch.Tensor) -> bool:
    """Whether there is one label per position, with the classes on axis 1."""
    return target.shape == (prediction.shape[0], *prediction.shape[2:])


def _indexing(failed: FailedCall) -> tuple[torch.Tensor | None, int | None, int | None]:
    """Index tensor, size of the axis it indexes, and the value that is exempt."""
    operands = loss_operands(failed)
    if operands is not None and failed.name in CLASS_LOSSES:
        prediction, target = operands
        if (
            prediction.dim() > 2
            and target.dim() == prediction.dim() - 1
            and not _are_pixels(prediction, target)
        ):
            # The class axis itself is in question; shape/class-axis decides.
            return None, None, None
        exempt = failed.kwargs.get("ignore_index", IGNORED)
        return (
            target,
            prediction.shape[1]
            if prediction.dim() > 1
            else prediction.shape[-1]
            if prediction.dim()
            else None,
            exempt,
        )
    first, second = failed.argument(0, "input"), failed.argument(1, "weight")
    if (
        failed.name in ("embedding", "embedding_bag")
        and isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
    ):
        if first.is_floating_point() != second.is_floating_point() and first.is_floating_point():
            first, second = second, first
        return first, second.shape[0] if second.dim() else None, None
    if failed.name in (
        "gather",
        "index_select",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "index_add",
        "index_add_",
        "index_fill_",
        "index_copy_",
    ):
        axis, index = failed.argument(1, "dim"), failed.argument(2, "index")
        if (
            isinstance(first, torch.Tensor)
            and isinstance(axis, int)
            and isinstance(index, torch.Tensor)
        ):
            return index, first.shape[axis], None
    if failed.name == "one_hot" and isinstance(first, torch.Tensor):
        classes = failed.argument(1, "num_classes")
        return first, classes if isinstance(classes, int) and classes > 0 else None, None
    if failed.name == "__getitem__" and isinstance(first, torch.Tensor):
        return _subscript(first, failed.args[1] if len(failed.args) > 1 else None)
    return None, None, None


def _subscript(
    table: torch.Tensor, index: Any
) -> tuple[torch.Tensor | None, int | None, int | None]:
    for axis, each in enumerate(index if isinstance(index, tuple) else (index,)):
        if (
            isinstance(each, torch.Tensor)
            and each.dtype in (torch.int64, torch.int32)
            and axis < table.dim()
        ):
            return each, table.shape[axis], None
    return None, None, None
