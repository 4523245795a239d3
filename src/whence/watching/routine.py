"""The short path for a step like all others, with PyTorch's optimizers and nothing recorded.

Nearly all steps are like that, and caches are cold when one is checked: each Python call costs
about 0.3 microseconds, each bytecode 0.05. This path therefore asks only what may differ: it checks
the loss and the gradients, and records time and place. Sensors ask the routine before their
listeners. Anything unusual ends it, as does every other check: the step then takes the long path,
after which the routine may begin again.

On an accelerator nothing is read here. The loss and the flags of the gradients are sent to the
host, and the values of earlier steps that have arrived are checked.
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
# Mapped over the weights of a model, so that the loop runs in C.
gradient_of = attrgetter("grad")
without_history = attrgetter("data")


class Host(Protocol):
    """The owner of the routine."""

    step: int
    watchdog: Watchdog


class Routine:
    """The short path of a step. Each method returns whether nothing else needs to be done."""

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
        """Never during a check, nor after the watch: every check begins by ending the routine."""
        self.within = False
        """Whether optimizers step within backward."""
        self.hears_end = False
        """Whether the end of the current backward should be reported."""
        self._stepped: int | None = None
        """The number of the step that they began within the current backward."""
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
        """Whether reading a value would wait for the device, so that the step is checked later."""
        tripwires.pending.last_sites = beats.last_sites

    def judge(self) -> None:
        """Decide after a step on the long path whether the next one may take the short path."""
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
        """Enter an outermost module in training."""
        if not torch.is_grad_enabled() or self._passes.is_complete():
            return False
        self._beats.is_running = False
        self._passes.enter(args)
        self._pace.note_inputs(module, args)
        return True

    def batch_arrived(self) -> bool:
        """Begin the next micro-batch of the same step, after a backward."""
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
        """Begin the backward of one loss, which frees its graph."""
        batch, tripwires, course = self._loaders.current, self._tripwires, self._course
        if not self.on or self._pace.calls.on or are_transforms_active():
            # A batch that was waiting for this check may have ended the routine.
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
        # Accumulated gradients are also checked between the backwards.
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
        """Check the gradients of all optimizers before the first of them changes anything."""
        slopes: list[torch.Tensor] = []
        for ref in optimizers:
            known = ref()
            for group in known.param_groups if known is not None else ():
                slopes += map(gradient_of, group["params"])
        if not ONLY_TENSORS.issuperset(map(type, slopes)):
            # Some weights have no gradient, or one of a class that overrides reading.
            slopes = [each for each in slopes if type(each) is torch.Tensor]
        if not self._late:
            return are_finite(slopes if leaves_no_trace() else list(map(without_history, slopes)))
        self._tripwires.pending.flag_gradients(list(map(without_history, slopes)))
        return True


def _reads_are_free(optimizer: Optimizer) -> bool:
    return all(
        reads_are_free(each.device) for group in optimizer.param_groups for each in group["params"]
    )
