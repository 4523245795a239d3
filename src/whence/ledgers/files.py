"""The ledger of weight files: what was read, and which models use it at the next update."""

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
    """States that were read from files, until a module loads one or an update runs.

    The ledger keeps none of them alive.
    """

    def __init__(self) -> None:
        self._reads: Counter[Site | None] = Counter()
        self._open: States = []
        self._before: WeakTable[nn.Module, None] = WeakTable()

    def is_data(self, stack: tuple[Site, ...]) -> bool:
        """Count a file. True if this line reads many files, as for samples, not checkpoints."""
        site = stack[0] if stack else None
        self._reads[site] += 1
        return self._reads[site] > MOST_READS

    def read(self, states: States, models: Iterable[nn.Module]) -> None:
        """Record a file. Models that ran before it may be the ones it was written from."""
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
        """The contents of the models that the next update trains, and of other models built since.

        None if the pass uses the tensors of the file directly.
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
