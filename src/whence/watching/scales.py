"""The scales of GradScalers: one that is halved again and again is no search for the right one."""

from __future__ import annotations

import weakref

from torch.amp.grad_scaler import GradScaler

from whence.tape.trip import ScaleFall

SMALL_SCALE = 128.0
MOST_SKIPPED = 10


class Scales:
    def __init__(self) -> None:
        self._falls: weakref.WeakKeyDictionary[GradScaler, ScaleFall] = weakref.WeakKeyDictionary()
        self.told = False

    @property
    def are_used(self) -> bool:
        return bool(self._falls)

    def fall_of(self, scaler: GradScaler) -> ScaleFall | None:
        """At the end of a step: how far the scale has fallen in one go, if that is too far."""
        if not scaler.is_enabled():
            return None
        now = float(scaler.get_scale())
        states = scaler._per_optimizer_states.values()
        skipped = any(bool(each) for state in states for each in state["found_inf_per_device"].values())
        last = self._falls.get(scaler) if skipped else None
        fall = ScaleFall(last.before if last else now, now, (last.steps if last else 0) + skipped)
        self._falls[scaler] = fall
        is_search = now > SMALL_SCALE or (fall.steps < MOST_SKIPPED and now >= 1.0)
        return fall if skipped and not is_search and not self.told else None
