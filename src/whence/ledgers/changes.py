"""The ledger of changes: slices of the data that a loop modifies in place in every epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from whence.ledgers.marks import mark_of
from whence.source.sites import Site
from whence.tape.tape import Call, flatten

# Operations whose result depends on the previous values, unlike a full overwrite.
CHANGES = frozenset(
    {"__setitem__", "masked_fill_", "masked_scatter_", "index_fill_", "index_add_", "add_", "sub_",
     "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__", "clamp_", "clip_", "pow_",
     "neg_", "log_", "log1p_", "exp_", "sqrt_", "abs_"}
)  # fmt: skip
MOST_REGIONS = 256
MOST_LOOKS = 4096
MOST_PENDING = 64
ENOUGH = 2

Key = tuple[int, int, tuple[int, ...], tuple[int, ...]]


@dataclass(eq=False, slots=True)
class Region:
    """A region of memory that a line changed before a model received it."""

    site: Site
    key: Key
    left: float
    """Its fingerprint when a model last received it."""
    turn: int
    began: float | None = None
    """Its fingerprint before the change in the current iteration."""
    found_so: int = 0
    """How often it still had the changed contents when its line returned to it after others."""

    def has(self, storage: int, offset: int) -> bool:
        memory, begin, shape, stride = self.key
        last = sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
        return storage == memory and begin <= offset <= begin + last

    def content(self, tensor: torch.Tensor) -> float | None:
        """The current fingerprint, read through another tensor of the same memory."""
        _, begin, shape, stride = self.key
        whole = torch.empty(0, dtype=tensor.dtype).set_(
            tensor.untyped_storage(), begin, shape, stride
        )
        return _mark(whole)


class ChangeLedger:
    """Regions of memory, bounded: one fingerprint for each."""

    def __init__(self) -> None:
        self._regions: dict[Key, Region] = {}
        self._memories: set[int] = set()
        self._changed: list[tuple[Site, int, int]] = []
        """Changes since a model last received an input: the line, the memory, the offset."""
        self._before: tuple[Call, float] | None = None
        self._looks = 0
        self._looks_in_turn = 0
        self._turn = 0

    def is_open(self) -> bool:
        return self._looks < MOST_LOOKS

    def begins(self, call: Call, tensors: list[torch.Tensor]) -> None:
        """Record the state before a call that may change its first operand."""
        self._before = None
        # A program that fills a table row by row would otherwise have the table read for each row.
        if (
            call.phase != "program"
            or not tensors
            or self._looks_in_turn >= MOST_PENDING
            or not _is_partial(call)
        ):
            return
        mark = _mark(tensors[0])
        if mark is None:
            return
        self._looks += 1
        self._looks_in_turn += 1
        self._before = call, mark
        storage, offset = _place(tensors[0])
        for region in self._regions.values() if storage in self._memories else ():
            if region.began is None and region.has(storage, offset):
                region.began = region.content(tensors[0])

    def made(self, call: Call) -> None:
        """Record the state after the same call."""
        (noted, before), self._before = self._before or (None, 0.0), None
        tensor = call.operands[0].tensor if noted is call and call.operands else None
        if tensor is not None and call.site is not None and _mark(tensor) not in (None, before):
            self._changed.append((call.site, *_place(tensor)))
            del self._changed[:-MOST_PENDING]

    def given(self, args: Iterable[Any]) -> None:
        """Compare the inputs that a model receives."""
        self._looks_in_turn = 0
        if not self._changed:
            return
        for each in flatten(tuple(args)):
            if isinstance(each, torch.Tensor) and (mark := _mark(each)) is not None:
                self._enter(each, mark)
        self._changed.clear()
        for region in self._regions.values():
            region.began = None

    def _enter(self, tensor: torch.Tensor, mark: float) -> None:
        storage, offset = _place(tensor)
        key = storage, offset, tuple(tensor.shape), tuple(tensor.stride())
        region = self._regions.get(key)
        self._turn += 1
        if region is None:
            region = Region(self._changed[0][0], key, mark, self._turn)
            site = next(
                (site for site, memory, at in self._changed if region.has(memory, at)), None
            )
            if site is not None and len(self._regions) < MOST_REGIONS:
                region.site = site
                self._regions[key] = region
                self._memories.add(storage)
            return
        others = (
            each
            for each in self._regions.values()
            if each.site == region.site and each is not region
        )
        if region.began == region.left and any(each.turn > region.turn for each in others):
            region.found_so += 1
        region.left, region.turn = mark, self._turn

    def left_behind(self) -> tuple[Site, int] | None:
        """A line that changes a model's input batches and later finds them changed; how many."""
        counts = Counter(each.site for each in self._regions.values() if each.found_so)
        return next(((site, count) for site, count in counts.items() if count >= ENOUGH), None)


def _place(tensor: torch.Tensor) -> tuple[int, int]:
    return tensor.untyped_storage().data_ptr(), int(tensor.storage_offset())


def _is_partial(call: Call) -> bool:
    if call.name != "__setitem__":
        return True
    index = call.args[1] if len(call.args) > 1 else None
    return not (index is Ellipsis or index == slice(None))


def _mark(tensor: torch.Tensor | None) -> float | None:
    """The fingerprint of a tensor; None for weights, which are changed in place on purpose."""
    return mark_of(tensor) if tensor is not None and not tensor.requires_grad else None
