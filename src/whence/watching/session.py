"""One watch: its sensors, its tape, its record, and what it does when something fails."""

from __future__ import annotations

import math
import os
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any, Protocol, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import dataloader

from whence.config import Config
from whence.finding import Finding, Outcome, Overhead, Report, described
from whence.ledgers.changes import CHANGES
from whence.ledgers.draws import DRAWS
from whence.ledgers.labels import LOSSES
from whence.ledgers.loop import Kind
from whence.record import Record
from whence.repro import Repro
from whence.rules.rule import call_rules
from whence.sensors.backward import BackwardSensor
from whence.sensors.calls import CallSensor
from whence.sensors.compiled import CompileSensor
from whence.sensors.loader import LoaderSensor
from whence.sensors.loop import LoopSensor, OrderSensor
from whence.sensors.modules import ModuleSensor
from whence.sensors.optimizer import OptimizerSensor
from whence.sensors.transforms import TransformSensor
from whence.sensors.watchdog import Watchdog
from whence.source.sites import (
    Site,
    frames_from,
    frames_in,
    frames_outside,
    is_library,
    let_go,
    sites_in,
    stack_of,
    user_frames,
    user_stack,
)
from whence.source.suppressions import is_suppressed
from whence.tape.batches import Batch, LoaderBook, LoaderInfo, Lost, is_from_a_signal
from whence.tape.passes import MOST_DELIVERIES, MOST_ENTRIES, PassBook
from whence.tape.preparation import Preparation
from whence.tape.randomness import Kept
from whence.tape.scopes import ModuleBook, Scope
from whence.tape.tape import CASTS, Call, CompiledRegion, Tape, flatten
from whence.tape.transform import Transform
from whence.watching.aside import Aside, AsStep, Unread, Unseen, recording
from whence.watching.auditing import AUDITS, Auditor
from whence.watching.diagnosing import Diagnoser
from whence.watching.explaining import Explainer
from whence.watching.functional import FunctionalSteps
from whence.watching.pacing import Pace
from whence.watching.reenacting import Reenactor
from whence.watching.routine import Routine
from whence.watching.stepping import HandSteps
from whence.watching.stopping import Stop
from whence.watching.tripwires import Tripwires, refused_operands, weights_of
from whence.watching.updates import evaluates_once, is_torchs

RECORDED_FETCHES = 12
SOME_CALLS = 512
READINGS = frozenset({"item", "__float__", "tolist", "isnan", "isfinite", "isinf"})
EVALUATION = "evaluation"
"""A closure that an optimizer calls: not the optimizer's own doing."""
KEPT_LOOKS = frozenset({3, 6, 12, 24})
"""At which gradients with a graph memory is looked at, where no pass has ended: later the graphs are too large to be counted."""


T = TypeVar("T")


class Screen(Protocol):
    """Where findings are shown while the program runs."""

    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


_watching: weakref.WeakSet[Session] = weakref.WeakSet()


class Session:
    """The state of a watch. Sensors report to it; nothing of it raises into the program unless it was asked to stop it."""

    def __init__(self, config: Config, record: Record, screen: Screen) -> None:
        self.config = config
        self.record = record
        self.screen = screen
        self.tape = Tape()
        self.modules = ModuleBook()
        self.loaders = LoaderBook()
        self.passes = PassBook(self.tape)
        self.preparation = Preparation(self.tape)
        books = (self.modules, self.loaders, self._recording_aside)
        self.explainer = Explainer(self.tape, *books, self._watching_again)
        self.diagnoser = Diagnoser(self.tape, self.passes, *books)
        self.tripwires = Tripwires(self, self.passes, self.diagnoser)
        self.diagnoser.once_more = Reenactor(self)
        self.functional = FunctionalSteps(self, self.passes, self.tripwires)
        self.auditor = Auditor(self, self.passes)
        self.scope: Scope | None = None
        self.step = 0
        self._seconds = 0.0
        self._looking_now = False
        self._phases: list[str] = []
        self._explained: BaseException | None = None
        self._said: list[Finding] = []
        self._noticed: set[Site | None] = set()
        self._to_stop = False
        self._over = False
        self.calls = CallSensor(self)
        self.optimizers = OptimizerSensor(self)
        self.module_sensor = ModuleSensor(self)
        self.order = OrderSensor(self)
        self.loader_sensor = LoaderSensor(self)
        self.watchdog = Watchdog(self, config.hang_after)
        self.loop_sensor = LoopSensor(self)
        self.transforms = TransformSensor(self)
        self.sensors = (
            self.module_sensor,
            self.loader_sensor,
            BackwardSensor(self),
            CompileSensor(self),
            self.optimizers,
            self.loop_sensor,
            self.transforms,
            self.order,
        )
        sensors = self.calls, self.module_sensor, self.order
        self.pace = Pace(self, config.budget, self.tape, self.passes, *sensors)
        self.diagnoser.backwards_at = self.explainer.beats.last_backwards
        self.hand = HandSteps(self, self.passes, self.tripwires, self.pace)
        beats = self.explainer.beats
        self.routine = Routine(self.loaders, self.passes, beats, self.tripwires, self.auditor, self.pace)
        self._fetches = 0
        self._has_ended_a_pass = False
        self._kept = 0
        """Gradients that were computed with a graph of their own before that."""

    # its life

    def start(self) -> None:
        self.pace.began = perf_counter()
        _watching.add(self)
        for sensor in self.sensors:
            sensor.start()
        self.calls.start()
        self.watchdog.start()

    def stop(self) -> None:
        """Take every sensor off. Safe to call twice."""
        self.watchdog.stop()
        self.calls.stop()
        for sensor in self.sensors:
            sensor.stop()
        self._explained = None
        _watching.discard(self)

    def close(self, outcome: Outcome) -> Report:
        with self.looking():
            self._end([], None)
        self.stop()
        self.passes.forget()
        self.tape.copies.clear()
        self.tripwires.forget()
        self.auditor.weights.forget()
        total = perf_counter() - self.pace.began
        ratio = total / max(total - self.cost(), 1e-9)
        return self.record.close(outcome=outcome, steps=self.step, overhead=Overhead(ratio, self.cost()))

    def cost(self) -> float:
        """Seconds that the watch has taken from the program."""
        return self._seconds + self.calls.seconds

    # what the call sensor reports

    def current(self) -> dict[str, Any]:
        phase = self._phases[-1] if self._phases else EVALUATION
        if phase is EVALUATION:
            phase = "forward" if self.scope is not None else "program"
        return {"module": self.scope, "step": self.step, "phase": phase}

    def call_began(self, call: Call, tensors: list[torch.Tensor]) -> None:
        if transforming():
            self.tape.has_gaps = True
        elif not call.inner:
            if self.passes.current.backwards and self.passes.hand.on:
                with self.looking():
                    self.hand.call_begins(call)
            self.passes.note_operands(call, tensors)
            if not self.passes.begun and call.phase == "program":
                with self.looking():
                    self.preparation.begins(call, tensors)
            if call.name in CHANGES and self.auditor.changes.is_open():
                with self.looking():
                    self.auditor.changes.begins(call, tensors)

    def call_made(self, call: Call, _result: Any) -> None:
        if call.number % SOME_CALLS == 0:
            self.pace.leave_off()
        if call.site not in self._noticed:
            for notice in call_rules():
                if (finding := notice(call)) is not None:
                    self._noticed.add(call.site)
                    self._say([finding])
        if call.name in CASTS:
            with self.looking():
                self.tape.note_cut(call)
        if not self.passes.begun and call.phase == "program" and not transforming():
            with self.looking():
                self.preparation.made(call)
        if call.name in LOSSES and not self.passes.current.deliveries and not transforming():
            with self.looking():
                self.auditor.labels.note(call, self.passes.current, self.passes.calls)
        if call.name in CHANGES and self.auditor.changes.is_open():
            with self.looking():
                self.auditor.changes.made(call)
        if call.name in DRAWS and EVALUATION not in self._phases and not transforming():
            with self.looking():
                self.auditor.draws.note(call)
        if call.name in READINGS and call.phase != "optimizer" and not transforming():
            with self.looking():
                self.tripwires.value_read(call)
        if self.auditor.rounds.open and call.phase in ("program", "forward"):
            self._goes_by()
        if self._explained is not None and sys.exception() is not self._explained:
            # The program got on: whatever was raised has been caught. What a `with` does on the way out is not that.
            self._explained = None
            self._said = []
            self.screen.release()

    def call_failed(self, call: Call, func: Any, args: Any, kwargs: Any, exception: Exception) -> None:
        # What fails within a fetch is explained when the fetch has failed, with the samples at hand.
        if call.phase != "data" and not is_from_a_signal(exception):
            frames = frames_outside(exception)
            tensors = refused_operands(func, args, kwargs)
            self._explain(
                exception,
                lambda: (
                    (self._bad_operand(exception, tensors) if tensors else [])
                    or self.explainer.failed_call(call, func, args, kwargs, exception, frames)
                ),
            )

    # what the module sensor reports

    def module_entered(self, module: nn.Module, args: tuple[Any, ...], outermost: bool = False) -> None:
        outermost = outermost or (self.scope is not None and self.scope.parent is None)
        if not outermost or transforming():
            return
        if self._enters_as_ever():
            self.passes.enter(args)
        else:
            with self.looking():
                self._note_entry(module, args)
        self.pace.note_inputs(module, args)

    def _enters_as_ever(self) -> bool:
        """The short way for a step like all others: it trains, nothing is recorded, and nothing is to be found out any more."""
        return (
            not self.calls.on
            and not self.order.on
            and torch.is_grad_enabled()
            and self.tripwires.trained
            and not self.tripwires.asked
            and not self.passes.hand.on
            and not self.auditor.rounds.open
            and len(self.passes.current.entries) < MOST_ENTRIES
        )

    def _note_entry(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self.hand.look()
        entries = len(self.passes.current.entries)
        trial = not torch.is_grad_enabled() and entries >= MOST_DELIVERIES
        if self.tripwires.asked or self.passes.begun == 0 or trial or entries >= MOST_ENTRIES:
            self.tripwires.next_pass()
        if self.auditor.rounds.open:
            self._goes_by()
        self.passes.enter(args)
        self.tripwires.module_given(args)
        current = self.loaders.current
        self.auditor.model_entered(module, args, id(current.info) if current is not None else 0)

    def module_failed(self, _module: nn.Module, _args: tuple[Any, ...], exception: Exception) -> None:
        if is_from_a_signal(exception):
            return
        outer = frames_outside(exception)
        state: dict[str, Any] = {"scope": self.scope, "step": self.step, "phase": "forward"}
        self._explain(
            exception, lambda: self._bad_operand(exception) or self.explainer.traceback(exception, outer, **state)
        )

    def pause_calls(self) -> bool:
        was_on = self.calls.on
        self.calls.stop()
        return was_on and not self.calls.on

    def resume_calls(self) -> None:
        self.calls.start()

    # what the compile sensor reports

    def region_began(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Compiled code is about to run: everything that dynamo would see is taken off."""
        call = None
        hooks, calls = self.module_sensor.on, self.calls.on
        if calls:
            with self.looking():
                weights = (
                    dict(nn.Module.named_parameters(target)) | dict(nn.Module.named_buffers(target))
                    if isinstance(target, nn.Module)
                    else {}
                )
                given = (weights, args, kwargs)
                stack = user_stack(sys._getframe(1))
                call = self.tape.begin(CompiledRegion(target), given, {}, stack=stack, **self.current())
                call.phase = "forward"
                self.passes.note_operands(call, [each for each in flatten(given) if isinstance(each, torch.Tensor)])
        if isinstance(target, nn.Module) and self.scope is None and hooks:
            self.modules.note_root(target)
            self.module_entered(target, args, outermost=True)
            calls = calls or self.calls.on
        self.module_sensor.stop()
        self.calls.stop()
        # A compiled function may be a whole step, with zero_grad and all; a compiled model has none of that in it.
        within = (
            (self.transforms,) if isinstance(target, nn.Module) else (self.transforms, self.loop_sensor, self.order)
        )
        loop = [each for each in within if each.on]
        for sensor in loop:
            sensor.stop()
        return call, hooks, calls, loop

    def region_ended(self, region: Any, result: Any) -> None:
        call, hooks, calls, loop = region
        for sensor in loop:
            sensor.start()
        if hooks:
            self.module_sensor.start()
        if calls:
            self.calls.start()
        if call is not None and result is not None:
            with self.looking():
                self.tape.finish(call, result, [])

    # what the loader sensor reports

    def fetch_began(self) -> None:
        """What a dataset does is the same for every sample: after some batches it is looked at only if it fails."""
        self._phases.append("data")
        self._fetches += 1
        self.calls.only_failures = self._fetches > RECORDED_FETCHES

    def fetch_ended(self) -> None:
        if self._phases and self._phases[-1] == "data":
            self._phases.pop()
        self.calls.only_failures = False

    def batch_arrived(self, batch: Batch, data: Any) -> None:
        """Where a loader is known and nothing is recorded, little is done here: it is done for every batch."""
        now = self.passes.current
        too_many = len(now.deliveries) >= MOST_DELIVERIES
        if self.passes.begun == 0 or now.backwards or not torch.is_grad_enabled() or too_many or now.trained:
            with self.looking():
                self.tripwires.next_pass()
        self.passes.deliver(batch, data)
        self.tape.mark_leaves(batch, batch.info.form.leaves(data))
        if self.auditor.batches.count(batch.info):
            with self.looking():
                self.auditor.batches.note(batch, data)
        if batch.signature is not batch.info.noted:
            batch.info.noted = batch.signature
            self.pace.note_signature(("batch", id(batch.info), batch.signature))

    def epoch_began(self, info: LoaderInfo) -> None:
        with self.looking():
            self._audited(self.auditor.epoch_began, info, user_stack(sys._getframe(1)))

    def epoch_ended(self, info: LoaderInfo) -> None:
        with self.looking():
            epoch = self.auditor.epoch_ended(info)
            if epoch is not None and not epoch.batches:
                frame = sys._getframe(1)
                self._audited(self.auditor.audit, user_stack(frame), user_frames(frame), False)

    def fetch_failed(
        self,
        info: LoaderInfo,
        indices: list[Any] | None,
        worker: int | None,
        streams: Kept,
        exception: Exception,
        lost: list[Lost],
    ) -> None:
        outer = frames_outside(exception)
        if lost:
            self._explain(exception, lambda: self.explainer.lost_worker(info, lost, exception, outer, self.step))
        elif indices is not None or info.is_iterable:
            self._explain(
                exception, lambda: self.explainer.fetch(info, indices, worker, streams, exception, outer, self.step)
            )

    # what the watchdog reports

    def stands_still(self, thread: int, seconds: float) -> None:
        """Called from a thread of its own, while the program waits."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            # Another process may be at work that is none of this one's.
            return
        frame = sys._current_frames().get(thread)
        frames = list(frames_from(frame))
        waits_for_data = any(each.f_code.co_filename == dataloader.__file__ for each in frames)
        lost = self.loader_sensor.lost(only_dead=False) if waits_for_data else None
        if lost is not None:
            waiting = TimeoutError(f"no batch for {seconds:.0f} seconds")
            self.say(self.explainer.lost_worker(*lost, waiting, frames, self.step))
        else:
            self.auditor.stands_still(user_stack(frame), user_frames(frame), seconds)

    def _goes_by(self) -> None:
        """The program is somewhere: if that is past a loop that gave nothing, tell."""
        frame = sys._getframe(1)
        with self.looking():
            if self.auditor.rounds.passes_by(frame):
                self._audited(self.auditor.audit, user_stack(frame), user_frames(frame), False)

    # what the loop sensor reports

    def loop_event(self, kind: Kind, stack: tuple[Site, ...], args: Any, kwargs: Any, result: Any) -> None:
        if not self._looking_now and not transforming():
            with self.looking():
                if self.auditor.rounds.open:
                    self._goes_by()
                if kind is Kind.CLEAR:
                    # The update was made before this, and nobody said so.
                    self.hand.look()
                if kind is Kind.RESCALE:
                    self.tripwires.scale_ends(args[0], stack)
                elif kind is Kind.SCHEDULE:
                    self.auditor.scheduled(args[0], stack)
                else:
                    self.auditor.event(kind, stack, args, kwargs, result)
                if kind is Kind.SCHEDULE and getattr(args[0], "last_epoch", None) == 0:
                    # A schedule makes its first step while it is built.
                    self.explainer.builds.note(args[0], stack)

    def refused(self, exception: Exception) -> None:
        """A method of torch's, written in Python, does not take what it is given."""
        if is_from_a_signal(exception) or transforming():
            return
        outer = frames_outside(exception)
        state: dict[str, Any] = {"scope": None, "step": self.step, "phase": "program"}
        self._explain(exception, lambda: self.explainer.traceback(exception, outer, **state))

    # what the optimizer sensor reports

    def optimizer_built(self, optimizer: Optimizer, stack: tuple[Site, ...]) -> None:
        if not self._looking_now:
            self.passes.hand.on = self.routine.on = False
            self.auditor.forget_hand()
            self.auditor.optimizer_built(optimizer, stack)
            sizes = tuple(len(group["params"]) for group in optimizer.param_groups)
            self.explainer.builds.note(optimizer, stack, sizes)

    def optimizer_refused(self, exception: Exception, used_up: bool) -> None:
        self.explainer.builds.given_used_up = used_up
        self.refused(exception)

    def step_began(self, optimizer: Optimizer, evaluates: bool) -> None:
        if self._looking_now or self._over:
            return
        if self.routine.on and not evaluates and self.routine.step_began(optimizer):
            return
        self.tripwires.portions.stepped()
        if not evaluates:
            self._before_update(optimizer)
        elif not evaluates_once(optimizer):
            self.auditor.evaluates(optimizer)
        self._phases.append("optimizer")
        if self.calls.on:
            self.calls.only_failures = is_torchs(optimizer)
        self._stop_if_asked()

    def _before_update(self, optimizer: Optimizer) -> None:
        """Its gradients are there, and used next."""
        with self.looking():
            if self.passes.hand.on:
                # Built before the watch began.
                self.passes.hand.on = False
                self.auditor.forget_hand()
            self.tripwires.step_began(optimizer)
            if self.order.on or self.calls.on:
                self._audited(self.auditor.step_began, optimizer)
            else:
                self.auditor.step_began(optimizer)

    def evaluation_began(self, optimizer: Optimizer) -> None:
        if not evaluates_once(optimizer):
            with self.looking():
                self.tripwires.next_pass()
                self.auditor.evaluation_began(optimizer)
        self._phases.append(EVALUATION)
        self.calls.only_failures = False

    def evaluation_ended(self, optimizer: Optimizer) -> None:
        if self._phases and self._phases[-1] == EVALUATION:
            self._phases.pop()
        if not evaluates_once(optimizer):
            with self.looking():
                self.tripwires.evaluation_ended(optimizer)
                self.auditor.evaluation_ended(optimizer)
        elif not self._over:
            self._before_update(optimizer)
            self._stop_if_asked()
        self.calls.only_failures = is_torchs(optimizer)

    def step_ended(self, optimizer: Optimizer, steps: int, frame: FrameType | None) -> None:
        if self._looking_now or self._over:
            return
        if self.routine.on and self.routine.step_ended(optimizer, steps, frame):
            self.step = steps
            return
        self.explainer.beats.stepped(optimizer, frame)
        if self.calls.only_failures and self.recording() and not self.calls.failed:
            with self.looking():
                self._note_update(optimizer)
        self.calls.only_failures = False
        while self._phases:
            if self._phases.pop() == "optimizer":
                break
        self._end_step(optimizer, steps)
        if self.config.steps is None:
            self.routine.judge(optimizer)

    def stepped_by_hand(self) -> None:
        """The program has changed its weights, and no optimizer did."""
        self.passes.hand.forget()
        self.step += 1
        self.auditor.stepped_by_hand(self.step)
        if self.step in AUDITS:
            frame = sys._getframe(2)
            self._audited(self.auditor.audit, user_stack(frame), user_frames(frame), False)

    def _note_update(self, optimizer: Optimizer) -> None:
        """An optimizer of torch's own is one entry of the tape: it changed its weights."""
        weights = weights_of(optimizer)
        stack = user_stack(sys._getframe(1))
        call = self.tape.begin(type(optimizer).step, (weights,), {}, stack=stack, **self.current())
        self.tape.finish(call, None, weights)

    def _end_step(self, optimizer: Optimizer, steps: int) -> None:
        with self.looking():
            self.tripwires.step_ended(optimizer)
            self.step = steps
            self._audited(self.auditor.step_ended, optimizer, steps)
            self.pace.step_made()
            self.tripwires.next_pass()
        self._stop_if_asked()
        if self.config.steps is not None and steps >= self.config.steps:
            self._retire()

    def _retire(self) -> None:
        """The watch has seen the steps it was asked to see: tell what there is to tell, and leave the program alone."""
        with self.looking():
            self._end(user_frames(sys._getframe(2)), None)
        self.calls.stop()
        for sensor in self.sensors:
            # torch is going through its hooks of optimizers: these stay, and do nothing any more.
            if sensor is not self.optimizers:
                sensor.stop()

    def _audited(self, look: Callable[..., None], *args: Any) -> None:
        """What audits take does not count against the budget of recording."""
        began = perf_counter()
        try:
            look(*args)
        finally:
            let_go()
            self.pace.diagnosing += perf_counter() - began

    # what the transform sensor reports

    def transform_began(self, transform: Transform) -> None:
        if not self._looking_now:
            with self.looking():
                self.functional.began(transform)
            self._stop_if_asked()

    def transform_ended(self, transform: Transform, result: Any) -> None:
        if not self._looking_now:
            with self.looking():
                self.functional.ended(transform, result)
            self._stop_if_asked()

    def recording_eagerly(self) -> AbstractContextManager[None]:
        """Record what is called within as a step of the program. For child processes."""
        return recording(AsStep(self.passes, self.step))

    # what the backward sensor reports

    def backward_began(self, losses: list[torch.Tensor], keeps_graph: bool, frame: FrameType | None) -> None:
        if self._looking_now or transforming():
            return
        if self.routine.on and self.routine.backward_began(losses, keeps_graph, frame):
            return
        self.explainer.beats.backward_began(frame, keeps_graph)
        if not self._has_ended_a_pass:
            self._has_ended_a_pass = True
            if self._kept:
                self.auditor.memory.clear()
        if self.loaders.current is not None:
            self.loaders.current.info.trained = True
        if self.passes.hand.on and losses:
            with self.looking():
                self.hand.backward_begins(losses[0])
        with self.looking():
            self.tripwires.backward_began(losses)
            if self.calls.on:
                self.auditor.backward_began(losses)
        if losses:
            self.pace.note_loss(losses[0])
        self._phases.append("backward")

    def graph_kept(self) -> None:
        """A gradient was computed that has a graph itself: where no pass ever ends, these are all that the program does."""
        if self._looking_now or transforming() or self._has_ended_a_pass or self.step:
            return
        self._kept += 1
        if self._kept in KEPT_LOOKS:
            with self.looking():
                self._audited(self.auditor.look_at_memory, self._kept, user_frames(sys._getframe(1)))

    def backward_failed(self, func: Any, args: Any, kwargs: Any, exception: Exception) -> None:
        """Autograd refuses, whether calls are watched or not; or code of the program's fails that it runs."""
        if transforming() or is_from_a_signal(exception):
            return
        outer = frames_outside(exception)
        state: dict[str, Any] = {"step": self.step, "phase": "backward"}

        def ask() -> list[Finding]:
            if sites_in(exception.__traceback__):
                return self.explainer.traceback(exception, outer, scope=None, **state)
            stack = user_stack(outer[0] if outer else None)
            call = self.tape.begin(func, args, kwargs, stack=stack, module=None, **state)
            return self.explainer.refused_backward(call, func, args, kwargs, exception, outer)

        self._explain(exception, ask)

    def backward_ended(self, inputs: list[torch.Tensor], gradients: list[torch.Tensor], raised: bool) -> None:
        if self._looking_now or transforming():
            return
        if self.routine.on and not inputs and not raised:
            self.routine.backward_ended()
            return
        self.explainer.beats.backward_ended()
        if self._phases and self._phases[-1] == "backward":
            self._phases.pop()
        self.passes.backward_ended()
        if not raised and (inputs or not self.optimizers.count):
            with self.looking():
                self.tripwires.backward_ended(inputs, gradients)
            self._stop_if_asked()
        elif not raised and self.tripwires.portions.more_to_come and EVALUATION not in self._phases:
            with self.looking():
                self.tripwires.portion_added()
        if not raised and not inputs and self.order.on:
            with self.looking():
                if self.passes.hand.on and not self.optimizers.count:
                    self._audited(self.auditor.before_update_by_hand)
                self.auditor.backward_ended()

    # what the tripwires ask for

    def recording(self) -> bool:
        return self.pace.recording()

    def has_newcomer(self) -> bool:
        return self.auditor.has_newcomer()

    def losses(self) -> Sequence[float]:
        return self.tripwires.losses

    def datasets(self) -> list[Any]:
        return [dataset for info in self.loaders.infos() if (dataset := info.dataset) is not None]

    def roots(self) -> list[nn.Module]:
        return self.modules.roots()

    def name_of(self, weight: torch.Tensor) -> str:
        return self.modules.name_of(weight)

    def trouble(self, what: str) -> None:
        self.record.not_watched(what)

    def scene(self, frames: list[FrameType]) -> dict[str, Any]:
        return {
            "frames": frames,
            "tape": self.tape,
            "modules": self.modules,
            "loaders": self.loaders,
            "record": self._recording_aside,
        }

    def built_at(self, optimizer: Optimizer) -> tuple[Site, ...]:
        return self.optimizers.built_at(optimizer)

    def optimizer_count(self) -> int:
        return self.optimizers.count

    def tests_rates(self, optimizer: Optimizer) -> bool:
        return self.auditor.tests_rates(optimizer)

    def known_optimizers(self) -> list[Optimizer]:
        return self.optimizers.known()

    def diagnose(self, ask: Callable[[], T]) -> T:
        began = perf_counter()
        try:
            return ask()
        finally:
            let_go()
            self.pace.diagnosing += perf_counter() - began

    def say(self, findings: list[Finding]) -> None:
        said = self._say(findings)
        stop_on = self.config.stop_on
        self._to_stop = self._to_stop or (
            stop_on is not None and any(each.severity.rank >= stop_on.rank for each in said)
        )
        if self._explained is None:
            self.screen.release()

    def record_next_step(self, why: str) -> None:
        self.record.not_watched(f"step {self.step} could not be replayed ({why}); the next one is recorded")
        self.pace.record()

    def _stop_if_asked(self) -> None:
        if self._to_stop:
            raise Stop

    # what the program's runner reports

    def program_failed(self, exception: BaseException) -> list[Finding]:
        """An exception is about to leave the program: what was said of it, now or when it was raised."""
        if not isinstance(exception, Exception):
            return []
        if exception is not self._explained or not self._said:
            state: dict[str, Any] = {"scope": None, "step": self.step, "phase": "program"}
            self._said = []
            lost = self.loader_sensor.lost(only_dead=True)
            if lost is not None:
                # torch tells of a dead worker wherever the program happens to be.
                frames = frames_in(exception.__traceback__)
                self._explain(exception, lambda: self.explainer.lost_worker(*lost, exception, frames, self.step))
            if exception is not self._explained or not self._said:
                self._explained = None
                self._explain(
                    exception, lambda: self._bad_operand(exception) or self.explainer.traceback(exception, [], **state)
                )
        with self.looking():
            if not self._said:
                self._said = self._end(frames_in(exception.__traceback__), exception)
        return self._said

    def _end(self, frames: list[FrameType], exception: BaseException | None) -> list[Finding]:
        """The program is over: what it left behind, looked at once."""
        over, self._over = self._over, True
        if not over:
            self.hand.look()
            self.step += self.functional.open
        found = [] if over else self.tripwires.program_ended(frames, exception)
        if not over and not found and exception is not None:
            sites = tuple(sites_in(exception.__traceback__))
            if self.auditor.rounds.fails_in(sites, frames):
                return self.auditor.tell_of("data/empty-epoch", sites, frames)
        if not over and not found and exception is None and (self.tape.count or self.step or self.loaders.infos()):
            self.auditor.audit((), frames, final=True)
        return found

    def _bad_operand(self, exception: Exception, tensors: list[torch.Tensor] | None = None) -> list[Finding]:
        """An exception that something not finite brought about is explained by where that was born."""
        stack, frames = stack_of(exception), [*frames_in(exception.__traceback__), *frames_outside(exception)]
        users = [each for each in frames if not is_library(each.f_code.co_filename)]
        return self.tripwires.operand_refused(exception, frames, users, stack, tensors)

    def sensor_failed(self, sensor: str, error: BaseException) -> None:
        if sensor == self.loader_sensor.name:
            # It will not tell of the end of the fetch that it is in.
            self.fetch_ended()
        what = f"{type(error).__name__}: {error}"
        self.record.not_watched(f"the {sensor} sensor failed ({what}) and switched itself off")

    def _explain(self, exception: Exception, ask: Callable[[], list[Finding]]) -> None:
        if exception is self._explained or self._looking_now:
            return
        self._explained = exception
        self._said = []
        with self.looking():
            self._said = self._say(ask())
        let_go()
        for trouble in self.explainer.troubles:
            self.record.not_watched(trouble)
        stop_on = self.config.stop_on
        if stop_on is not None and any(each.severity.rank >= stop_on.rank for each in self._said):
            raise Stop

    def _say(self, findings: list[Finding]) -> list[Finding]:
        """Record and show what the user wants to hear of."""
        wanted = [each for each in findings if self.config.wants(each.rule) and not is_suppressed(each)]
        for finding in wanted:
            repro = self.diagnoser.repros.pop(finding, None)
            if finding.rule == "nonfinite/uninitialised":
                self.tripwires.expect(finding)
            if self.record.add(finding):
                if repro is not None:
                    self.record.keep_repro(repro)
                self.screen.hold(finding)
        return wanted

    def looking(self) -> _Looking:
        """While Whence looks its call sensor does not, and a fault in looking goes no further."""
        return _Looking(self)

    def _watching_again(self, run: Callable[[], None]) -> tuple[BaseException | None, list[Finding]]:
        """Run something with everything on, and have what is said of it if it fails. For child processes."""
        self.record, self.screen = Unread(), Unseen()
        self.config = replace(self.config, stop_on=None)
        self.calls = self.pace.calls = CallSensor(self)
        self.pace.budget = math.inf
        self._phases, self._said, self._explained, self.scope = [], [], None, None
        self._looking_now = False
        self.tripwires.begin_anew()
        self.passes.begin(self.step, recording=True)
        for sensor in self.sensors:
            sensor.failed = False
            sensor.start()
        self.calls.start()
        try:
            run()
        except Exception as exception:
            return exception, self._said if exception is self._explained else []
        finally:
            self.calls.stop()
        return None, []

    def watch_again(self, run: Callable[[], None]) -> list[tuple[Finding, Repro | None]]:
        """The same for something that may go well: all that is said of it."""
        self._watching_again(run)
        assert isinstance(self.record, Unread)
        return [(each, self.record.kept.get(each)) for each in self.record.report.findings]

    def _recording_aside(self) -> AbstractContextManager[None]:
        """Put what is called within on the tape. For child processes."""
        return recording(Aside(self.passes, self.step))


class _Looking:
    __slots__ = ("_began", "_muted", "_nested", "_session")

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        session = self._session
        self._nested, session._looking_now = session._looking_now, True
        session.routine.on = False
        self._muted, session.calls.muted = session.calls.muted, True
        self._began = perf_counter()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        session = self._session
        session.calls.muted = self._muted
        session._looking_now = self._nested
        if not self._nested:
            session._seconds += perf_counter() - self._began
        if not isinstance(error, Exception) or is_from_a_signal(error):
            return False
        if "WHENCE_DEBUG" in os.environ:
            traceback.print_exc()
        session.record.not_watched(f"a failure that could not be explained ({described(error)})")
        return True


def transforming() -> bool:
    """Within `torch.func`: tensors have no values of their own there."""
    return bool(torch._C._are_functorch_transforms_active())


def running() -> Session | None:
    """The watch that is on in this process."""
    return next(iter(_watching), None)


def _forget_in_child() -> None:
    """A forked child (a DataLoader worker, say) is not watched: take everything off there."""
    for session in list(_watching):
        session.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
