"""The ledger of files with weights: what was read, and who has it when the first update after that is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import torch
from torch import nn

from whence.ledgers.contents import Piece, contents_of, in_use, tensors_of
from whence.source.sites import Site
from whence.weak_table import WeakTable

MOST_READS = 8

States = list[dict[str, Piece]]


class FileLedger:
    """Of interest from a file's reading until a module loads a state, or an update is made. Keeps nothing of it alive."""

    def __init__(self) -> None:
        self._reads: Counter[Site | None] = Counter()
        self._open: States = []
        self._before: WeakTable[nn.Module, None] = WeakTable()

    def is_data(self, stack: tuple[Site, ...]) -> bool:
        """One more file is read: whether that happens here again and again, as with samples, and not with checkpoints."""
        site = stack[0] if stack else None
        self._reads[site] += 1
        return self._reads[site] > MOST_READS

    def read(self, states: States, models: Iterable[nn.Module]) -> None:
        """Models that have run before may be those that the file was written from."""
        self._open += states
        for each in models:
            self._before[each] = None

    def loaded(self) -> None:
        self._open = []
        self._before.clear()

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def begun(
        self,
        weights: Iterable[torch.Tensor],
        held: Iterable[torch.Tensor],
        models: Iterable[nn.Module],
    ) -> tuple[States, States] | None:
        """The first update since: what the models have that it trains, and all others that came after the file.

        None if the pass uses what was read as it is.
        """
        states, trained = self._open, set(map(id, weights))
        if in_use(states, held):
            self.loaded()
            return None
        own: tuple[States, States] = [], []
        for model in models:
            tensors = tensors_of(model)
            is_trained = bool(trained & set(map(id, tensors.values())))
            if is_trained or model not in self._before:
                own[0 if is_trained else 1].append(contents_of(tensors))
        self.loaded()
        return own
