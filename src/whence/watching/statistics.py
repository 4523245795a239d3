"""Running statistics and other buffers that each pass changes: are they still finite?"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import torch

from whence.devices import reads_are_free
from whence.tape.finite import all_finite
from whence.tape.passes import PassBook
from whence.tape.replay import trouble_in
from whence.tape.scopes import ModuleBook
from whence.tape.tape import Value
from whence.tape.trip import BadState
from whence.watching.pending_steps import PendingSteps


@dataclass(frozen=True, slots=True)
class Lost:
    value: Value
    tensor: torch.Tensor

    def state(self, name: str) -> BadState:
        return BadState((name,), name.rpartition(".")[0])


class Statistics:
    def __init__(self, passes: PassBook, modules: ModuleBook, pending: PendingSteps) -> None:
        self._pending = pending
        self.are_lost = False
        """Whether they are lost for good, so that there is nothing more to report."""
        self._passes = passes
        self._modules = modules
        self._known: dict[int, tuple[weakref.ref[torch.Tensor], bool]] = {}

    def are_healthy(self) -> bool:
        """Whether they are finite, as far as known: an accelerator's answer comes later."""
        tensors = [tensor for _, tensor in self._changed()]
        if not tensors or reads_are_free(tensors[0].device) or not self._pending.may_wait():
            return all_finite(tensors)
        self._pending.flag_statistics(tensors)
        return True

    def lost(self) -> Lost | None:
        """The first buffer that the pass made non-finite; only once."""
        return None if self.are_lost or self.are_healthy() else self.first_lost()

    def first_lost(self) -> Lost | None:
        """The same where one is known to be non-finite."""
        self.are_lost = True
        return next(
            (Lost(value, tensor) for value, tensor in self._changed() if trouble_in(tensor)), None
        )

    def begin_anew(self) -> None:
        """Make them finite again, for a child process that searches for the cause."""
        self.are_lost = False
        with torch.no_grad():
            for _, tensor in self._changed():
                tensor.nan_to_num_(1.0, 1.0, 1.0)

    def _changed(self) -> list[tuple[Value, torch.Tensor]]:
        return [each for each in self._passes.changed_leaves() if self._is_buffer(each[1])]

    def _is_buffer(self, tensor: torch.Tensor) -> bool:
        """Whether a module registered the tensor; other tensors may hold anything."""
        known = self._known.get(id(tensor))
        if known is None or known[0]() is not tensor:
            known = self._known[id(tensor)] = (
                weakref.ref(tensor),
                self._modules.owner_of(tensor) is not None,
            )
        return known[1]
