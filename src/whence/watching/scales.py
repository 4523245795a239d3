"""The scales of GradScalers: repeated halving is not a search for the right scale."""

from __future__ import annotations

import weakref
from collections import deque

import torch
from torch.amp.grad_scaler import GradScaler

from whence.devices import is_capturing, reads_are_free
from whence.tape.readings import LOSSES, Boards, Reading
from whence.tape.trip import ScaleFall
from whence.weak_table import WeakTable

SMALL_SCALE = 128.0
MOST_SKIPPED = 10


class Scales:
    def __init__(self) -> None:
        self._falls: WeakTable[GradScaler, ScaleFall] = WeakTable()
        self.reported = False
        self.reads_late = True
        """False where values must be read immediately."""
        self._boards = Boards()
        self._pending: deque[tuple[weakref.ref[GradScaler], Reading]] = deque()
        """Scales that have not arrived from a device yet."""

    @property
    def are_used(self) -> bool:
        return len(self._falls) > 0

    def forget(self) -> None:
        self._pending.clear()
        self._boards.forget()

    def fall_of(self, scaler: GradScaler) -> ScaleFall | None:
        """How far the scale has fallen in consecutive steps, if that is too far."""
        if not scaler.is_enabled():
            return None
        states = scaler._per_optimizer_states.values()
        found = [each for state in states for each in state["found_inf_per_device"].values()]
        scale = scaler._get_scale_async()
        if self.reads_late and isinstance(scale, torch.Tensor) and not reads_are_free(scale.device):
            return self._fall_so_far(scaler, scale, found)
        return self._note(scaler, float(scaler.get_scale()), any(map(bool, found)))

    def _fall_so_far(
        self, scaler: GradScaler, scale: torch.Tensor, found: list[torch.Tensor]
    ) -> ScaleFall | None:
        """The same from the values that have arrived, which belong to an earlier step."""
        fall: ScaleFall | None = None
        while self._pending and self._pending[0][1].has_arrived():
            ref, reading = self._pending.popleft()
            values = reading.losses()
            reading.give_back()
            if values and ref() is scaler:
                fall = self._note(scaler, values[0], any(values[1:]))
        if not is_capturing():
            reading = Reading(self._boards)
            for each in (scale, *found[: LOSSES - 1]):
                reading.put_loss(each)
            reading.send()
            self._pending.append((weakref.ref(scaler), reading))
        return fall

    def _note(self, scaler: GradScaler, now: float, skipped: bool) -> ScaleFall | None:
        last = self._falls.get(scaler, None) if skipped else None
        fall = ScaleFall(last.before if last else now, now, (last.steps if last else 0) + skipped)
        self._falls[scaler] = fall
        is_search = now > SMALL_SCALE or (fall.steps < MOST_SKIPPED and now >= 1.0)
        return fall if skipped and not is_search and not self.reported else None
