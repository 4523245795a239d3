"""The sample axis of each tensor, and batches of other sizes.

The number of samples is the size that the tensors of a batch share. If they share none, or a square
tensor fits no other size (an adjacency matrix), there is no such axis: one graph is one sample.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from whence.checking.structure import mapped, tensors_in


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the samples of a batch are. `size` is their number."""

    size: int

    def axis(self, tensor: torch.Tensor) -> int | None:
        for axis in (0, 1):
            if tensor.dim() > axis and tensor.shape[axis] == self.size:
                return axis
        return None

    def take(self, batch: Any, rows: list[int]) -> Any:
        """Return the batch with these samples, in this order."""
        return self._taken(batch, rows, top=True)

    def _taken(self, tree: Any, rows: list[int], *, top: bool = False) -> Any:
        if isinstance(tree, list | tuple) and not hasattr(tree, "_fields"):
            if not top and self._is_per_sample(tree):
                return type(tree)(tree[row] for row in rows)
            return type(tree)(self._taken(each, rows) for each in tree)
        if type(tree) is dict:
            return {key: self._taken(each, rows) for key, each in tree.items()}
        return mapped(
            tree, lambda leaf: self._rows(leaf, rows) if isinstance(leaf, torch.Tensor) else leaf
        )

    def _rows(self, tensor: torch.Tensor, rows: list[int]) -> torch.Tensor:
        axis = self.axis(tensor)
        if axis is None:
            return tensor
        picked = tensor.detach().index_select(axis, torch.tensor(rows, device=tensor.device))
        return picked.requires_grad_(tensor.requires_grad) if tensor.requires_grad else picked

    def _is_per_sample(self, items: list[Any] | tuple[Any, ...]) -> bool:
        """Whether a list has one entry per sample, rather than batched tensors."""
        if len(items) != self.size:
            return False
        return not all(isinstance(each, torch.Tensor) and self.axis(each) == 0 for each in items)


def find_layout(batch: Any, model: nn.Module, runs: Callable[[Any], bool]) -> Layout | None:
    """Find the layout.

    `runs` says whether the model accepts a batch; an adjacency matrix does not shrink with the
    samples.
    """
    size = _common_size(batch)
    if size is None or _holds_graph(batch, model, size):
        return None
    layout = Layout(size)
    if any(_is_square(each, size) for _, each in tensors_in(batch)) and not runs(
        layout.take(batch, list(range(size - 1)))
    ):
        return None
    return layout


def _common_size(batch: Any) -> int | None:
    leading = _leading_sizes(batch)
    if not leading:
        return None
    if len(set(leading)) == 1:
        return leading[0]
    # Time first: targets have the samples in front, inputs on their second axis.
    *rest, last = [each for _, each in tensors_in(batch) if each.dim()]
    if isinstance(batch, tuple | list) and len(leading) == 1 + len(rest) and last.dim() == 1:
        size = last.shape[0]
        if all(each.dim() > 2 and each.shape[1] == size for each in rest):
            return int(size)
    return None


def _leading_sizes(tree: Any, depth: int = 0) -> list[int]:
    """First sizes of all batched tensors; the length of a list with one entry per sample."""
    if isinstance(tree, torch.Tensor):
        return [int(tree.shape[0])] if tree.dim() else []
    if isinstance(tree, Mapping):
        return [size for each in tree.values() for size in _leading_sizes(each, depth + 1)]
    if isinstance(tree, tuple | list):
        found = [_leading_sizes(each, depth + 1) for each in tree]
        if depth and found and _is_ragged(tree, found):
            return [len(tree)]
        return [size for each in found for size in each]
    return [int(each.shape[0]) for _, each in tensors_in(tree) if each.dim()]


def _is_ragged(items: Any, sizes: list[list[int]]) -> bool:
    """Whether entries are structures (boxes and labels per image) or tensors of uneven length."""
    if all(isinstance(each, Mapping) for each in items):
        return True
    return (
        all(isinstance(each, torch.Tensor) for each in items)
        and len({tuple(each) for each in sizes}) > 1
    )


def _holds_graph(batch: Any, model: nn.Module, size: int) -> bool:
    held = [each for _, each in tensors_in(batch)]
    buffers = list(model.buffers())
    plain = [
        each
        for module in model.modules()
        for each in vars(module).values()
        if isinstance(each, torch.Tensor)
    ]
    if any(each.layout is not torch.strided for each in (*held, *buffers, *plain)):
        return True
    return any(_is_square(each, size) or _is_edge_list(each) for each in (*buffers, *plain))


def _is_square(tensor: torch.Tensor, size: int) -> bool:
    return size > 1 and tensor.dim() >= 2 and tuple(tensor.shape[:2]) == (size, size)


def _is_edge_list(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 2 and tensor.shape[0] == 2 and tensor.dtype in (torch.int64, torch.int32)
