"""A step like all others: optimizers of torch's own, nothing recorded and nothing amiss.

Nearly all steps are, and caches are cold when one is looked at: each Python call costs about 0.3 microseconds, each
bytecode 0.05. So there is a way for them that asks of each step only what may differ: a look at the loss, a look at the
gradients, and a note of when and where. Sensors ask the routine before their listeners. Whatever is out of the ordinary
ends it, as does every other look: the step goes the long way then, at whose end the routine may begin again.

On an accelerator nothing is read here. The loss and the flags of the gradients are sent to the host, and those that have
arrived meanwhile are looked at, which are of an earlier step.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from operator import attrgetter
from types import FrameType
from typing import Any, Protocol

import torch
from torch import nn
from torch.optim import Optimizer

from whence.devices import reads_are_free
from whence.ledgers.loop import OptimizerEntry
from whence.sensors.watchdog import Watchdog
from whence.tape.batches import LoaderBook
from whence.tape.beats import Beats
from whence.tape.finite import are_finite, leaves_no_trace, weights_of
from whence.tape.passes import PassBook
from whence.tape.slices import is_within_backward
from whence.torch_internals import are_transforms_active
from whence.watching.auditing import Auditor
from whence.watching.pacing import Pace
from whence.watching.studying import AUDITS
from whence.watching.tripwires import Tripwires

SOME_STEPS = 8
ONLY_TENSORS = frozenset({torch.Tensor})
# They are mapped over the weights of a model: a loop in C.
gradient_of = attrgetter("grad")
without_history = attrgetter("data")


class Host(Protocol):
    """Whom the routine belongs to."""

    step: int
    watchdog: Watchdog


class Routine:
    """Each method answers whether that was all there is to do."""

    def __init__(
        self,
        host: Host,
        loaders: LoaderBook,
        passes: PassBook,
        beats: Beats,
        tripwires: Tripwires,
        auditor: Auditor,
        pace: Pace,
    ) -> None:
        self.on = False
        """Never while Whence is looking, nor once the watch is over: every look begins by ending the routine."""
        self.within = False
        """Whether optimizers step within backward."""
        self.hears_end = False
        """Whether the end of the backward under way is of interest."""
        self._stepped: int | None = None
        """The number of the step that they have begun in the one under way."""
        self._host = host
        self._loaders = loaders
        self._passes = passes
        self._beats = beats
        self._tripwires = tripwires
        self._course = tripwires.course
        self._auditor = auditor
        self._pace = pace
        self._optimizers: dict[weakref.ref[Optimizer], OptimizerEntry] = {}
        self._late = False
        """Whether reading a value would wait for the device: the step is looked at when its values have arrived."""
        tripwires.pending.last_sites = beats.last_sites

    def judge(self) -> None:
        """A step has gone the long way: may the next one go the short one?"""
        self.on = (
            self._pace.is_quiet()
            and self._tripwires.is_quiet()
            and not self._passes.hand.on
            and not self._auditor.rounds.open
        )
        if self.on:
            optimizers = self._tripwires.stepping()
            ledger = self._auditor.optimizers
            self._optimizers = {weakref.ref(each): ledger.entry_of(each) for each in optimizers}
            self._late = self._tripwires.pending.is_on and not all(map(_reads_are_free, optimizers))

    def entered(self, module: nn.Module, args: tuple[Any, ...]) -> bool:
        """An outermost module, in training."""
        if not torch.is_grad_enabled() or self._passes.is_complete():
            return False
        self._beats.is_running = False
        self._passes.enter(args)
        self._pace.note_inputs(module, args)
        return True

    def batch_arrived(self) -> bool:
        """After a backward: one more portion of the same step."""
        now, watched = self._passes.current, self._passes.watched
        if not now.backwards or self._pace.calls.on or not torch.is_grad_enabled():
            return False
        if watched and not self._tripwires.statistics.are_healthy():
            return False
        if self._late:
            self._tripwires.pending.close()
        self._passes.renew(now.step)
        self._tripwires.current_loss = None
        return True

    def backward_began(self, loss: torch.Tensor, frame: FrameType | None) -> bool:
        """The backward of one loss, which frees its graph."""
        batch, tripwires, course = self._loaders.current, self._tripwires, self._course
        if not self.on or self._pace.calls.on or are_transforms_active():
            # A batch that was waiting for this look may have ended the routine.
            return False
        if batch is not None and not batch.info.trained:
            return False
        if self._late:
            if not tripwires.is_left_for_later(loss):
                return False
        else:
            try:
                number = float(loss.item())
            except (RuntimeError, TypeError):
                return False
            if not course.goes_on(number):
                return False
            course.losses.append(number)
        self._passes.current.backwards += 1
        tripwires.current_loss = loss
        portions = tripwires.portions
        portions.made += 1
        # Gradients that are added to before they are used are looked at in between.
        self.hears_end = self.within or portions.made < portions.usual
        self._beats.backward_began(frame, False)
        self._pace.note_loss(loss)
        return True

    def backward_ended(self) -> bool:
        self._beats.is_running = False
        if self._stepped is None:
            return self._are_gradients_finite(self._optimizers)
        self._step_over(self._stepped)
        self._stepped = None
        return True

    def step_began(self, optimizer: Optimizer, _frame: FrameType | None) -> bool:
        ref = weakref.ref(optimizer)
        within = self.within and is_within_backward()
        entry = self._optimizers.get(ref)
        if not self.on or entry is None:
            return False
        if not self._are_gradients_finite((ref,) if within else self._optimizers):
            return False
        if self._late:
            self._tripwires.pending.updates(optimizer, weights_of(optimizer))
        self._beats.is_running = within
        if self._stepped is None:
            self._tripwires.portions.stepped()
        self._auditor.optimizers.count(entry, optimizer)
        return True

    def step_ended(self, optimizer: Optimizer, steps: int, frame: FrameType | None) -> bool:
        watched = self._passes.watched
        if (
            steps in AUDITS
            or self._pace.has_new_loss
            or (watched and not self._tripwires.statistics.are_healthy())
        ):
            return False
        self._beats.stepped(optimizer, frame)
        host = self._host
        host.step = steps
        if host.watchdog.life is None:
            # A fork has ended its thread.
            host.watchdog.go_on()
        if self.within and is_within_backward():
            self._stepped = steps
        else:
            self._step_over(steps)
        return True

    def _step_over(self, steps: int) -> None:
        if self._late:
            self._tripwires.pending.close()
        self._passes.renew(steps)
        self._tripwires.current_loss = None
        if steps % SOME_STEPS == 0 and self._pace.modules.on:
            self._pace.judge_hooks(SOME_STEPS)

    def _are_gradients_finite(self, optimizers: Iterable[weakref.ref[Optimizer]]) -> bool:
        """Those of all optimizers: before the first of them changes anything it may be another's that are not."""
        slopes: list[torch.Tensor] = []
        for ref in optimizers:
            known = ref()
            for group in known.param_groups if known is not None else ():
                slopes += map(gradient_of, group["params"])
        if not ONLY_TENSORS.issuperset(map(type, slopes)):
            # Some weights have none, or one of a class that defines what reading means.
            slopes = [each for each in slopes if type(each) is torch.Tensor]
        if not self._late:
            return are_finite(slopes if leaves_no_trace() else list(map(without_history, slopes)))
        self._tripwires.pending.flag_gradients(list(map(without_history, slopes)))
        return True


def _reads_are_free(optimizer: Optimizer) -> bool:
    return all(
        reads_are_free(each.device) for group in optimizer.param_groups for each in group["params"]
    )
