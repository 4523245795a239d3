"""One watch: its sensors, its tape, its record, and how it handles failures."""

from __future__ import annotations

import os
import sys
import traceback
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from types import FrameType, TracebackType
from typing import Any, Protocol, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from whence.config import Config
from whence.finding import Finding, Outcome, Overhead, Report, described
from whence.ledgers.schedules import Schedule
from whence.record import Record
from whence.repro import Repro
from whence.rerun.permission import forbid_children, take_losses
from whence.sensors.arithmetic import ArithmeticSensor
from whence.sensors.backward import BackwardSensor
from whence.sensors.calls import CallSensor
from whence.sensors.compiled import CompileSensor
from whence.sensors.loader import LoaderSensor
from whence.sensors.loop import LoopSensor, OrderSensor
from whence.sensors.modules import ModuleSensor
from whence.sensors.optimizer import OptimizerSensor
from whence.sensors.sensor import CannotStart, hide_own_frames
from whence.sensors.transforms import TransformSensor
from whence.sensors.watchdog import Watchdog
from whence.source.interrupts import Handler, HeldSignals, is_interrupt
from whence.source.sites import (
    Site,
    frames_in,
    frames_outside,
    is_library,
    is_own,
    sites_in,
    stack_of,
    user_frames,
    user_stack,
)
from whence.source.suppressions import is_suppressed
from whence.tape.batches import LoaderBook
from whence.tape.native import program_ran
from whence.tape.passes import PassBook
from whence.tape.preparation import Preparation
from whence.tape.quiet import restore_all
from whence.tape.scopes import ModuleBook, Scope
from whence.tape.tape import Tape
from whence.tape.trip import RateTrial
from whence.torch_internals import is_internal, missing_capabilities
from whence.watching.aside import Aside, AsStep, Unread, Unseen, recording
from whence.watching.auditing import Auditor
from whence.watching.budget import Budget, cpu_seconds
from whence.watching.diagnosing import Diagnoser
from whence.watching.explaining import Explainer
from whence.watching.functional import FunctionalSteps
from whence.watching.listeners.backwards import BackwardListener
from whence.watching.listeners.calls import CallListener
from whence.watching.listeners.compiled import CompileListener
from whence.watching.listeners.loaders import LoaderListener
from whence.watching.listeners.loop import LoopListener
from whence.watching.listeners.modules import ModuleListener
from whence.watching.listeners.optimizers import OptimizerListener
from whence.watching.listeners.transforms import TransformListener
from whence.watching.pacing import Pace
from whence.watching.reenacting import Reenactor
from whence.watching.routine import Routine
from whence.watching.stepping import HandSteps
from whence.watching.stopping import Stop
from whence.watching.studying import AUDITS
from whence.watching.tripwires import Tripwires

T = TypeVar("T")


EXPLODING = frozenset({"nonfinite/uninitialised", "optimizer/missing-zero-grad"})
"""Causes of exploding losses: the explosion is not reported again as something else."""


class Screen(Protocol):
    """Shows findings while the program runs."""

    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


_watching: dict[Session, None] = {}
"""Active watches; PyTorch's hooks keep them alive in any case."""


class Session:
    """The state of a watch, shared by the listeners of its sensors.

    It raises nothing into the program unless it was asked to stop it.
    """

    def __init__(self, config: Config, record: Record, screen: Screen) -> None:
        self.config = config
        forbid_children(when=config.no_child)
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
        self.budget = Budget(config.budget, self.cost)
        self.auditor: Auditor = Auditor(self, self.passes, self.budget)
        self.step = 0
        self.phases: list[str] = []
        self.is_looking = False
        self.is_over = False
        self._seconds = 0.0
        self._explained: Mark | None = None
        """The last explained exception, as long as the program has not caught it."""
        self._said: list[Finding] = []
        self._to_stop = False
        self.call_listener = CallListener(self)
        self.calls = CallSensor(self.call_listener)
        self._module_listener = modules = ModuleListener(self)
        loaders, loop = LoaderListener(self, self.calls), LoopListener(self)
        optimizers = OptimizerListener(self, loop)
        self.optimizers = OptimizerSensor(optimizers)
        self.module_sensor = ModuleSensor(modules)
        self.order = OrderSensor(loop)
        self.loader_sensor = LoaderSensor(loaders)
        self.watchdog = Watchdog(loaders, config.hang_after, self.save_progress)
        self.loop_sensor = LoopSensor(loop)
        self.transforms = TransformSensor(TransformListener(self))
        arithmetic = ArithmeticSensor(self.call_listener)
        self.diagnoser.warned = arithmetic.places
        self.sensors = (
            self.module_sensor,
            self.loader_sensor,
            BackwardSensor(BackwardListener(self, optimizers)),
            CompileSensor(CompileListener(self, modules)),
            self.optimizers,
            self.loop_sensor,
            self.transforms,
            self.order,
            arithmetic,
        )
        for sensor in self.sensors:
            sensor.postponed = self.loader_sensor.waiting
        sensors = self.calls, self.module_sensor, self.order
        self.pace = Pace(self, self.budget, self.tape, self.passes, *sensors)
        self.diagnoser.backwards_at = self.explainer.beats.last_backwards
        self.hand = HandSteps(self, self.passes, self.tripwires, self.pace)
        beats = self.explainer.beats
        self.routine = Routine(
            self, self.loaders, self.passes, beats, self.tripwires, self.auditor, self.pace
        )
        for sensor in self.sensors:
            sensor.routine = self.routine

    # Start and end.

    def start(self) -> None:
        self.budget.begin()
        _watching[self] = None
        for each in missing_capabilities():
            self.record.not_watched(each)
        for sensor in self.sensors:
            sensor.start()
        self.calls.start()
        self.watchdog.start()

    def stop(self) -> None:
        """Turn off every sensor. Safe to call twice."""
        self.watchdog.stop()
        self.calls.stop()
        for sensor in self.sensors:
            sensor.stop()
        self._explained = None
        _watching.pop(self, None)

    def close(self, outcome: Outcome) -> Report:
        with self.looking():
            self._end([], None)
        self.stop()
        for sensor in (self.calls, *self.sensors):
            if sensor.ran_out_of_stack:
                self.sensor_failed(sensor.name, RecursionError("maximum recursion depth exceeded"))
        self.passes.forget()
        self.tape.copies.clear()
        self.tripwires.forget()
        self.auditor.weights.forget()
        if (left_out := self.budget.summary()) is not None:
            self.record.not_watched(left_out)
        for loss in take_losses():
            self.record.not_watched(loss)
        return self.record.close(outcome=outcome, steps=self.step, overhead=self.overhead())

    def overhead(self) -> Overhead:
        total, cost = self.budget.run_seconds(), self.cost()
        return Overhead(total / max(total - cost, 1e-9), cost)

    def save_progress(self) -> None:
        """Write the progress, so that a killed run has its steps on disk.

        The watchdog calls this from its own thread.
        """
        self.record.progress(self.step, self.overhead())

    def cost(self) -> float:
        """CPU seconds that the watch has taken from the program."""
        return self._seconds + self.calls.seconds

    @property
    def scope(self) -> Scope | None:
        """The module that is running."""
        return self._module_listener.scope

    @scope.setter
    def scope(self, scope: Scope | None) -> None:
        self._module_listener.scope = scope

    # Shared by the listeners.

    def goes_by(self) -> None:
        """Report an exhausted loop if the program has passed it."""
        frame = sys._getframe(1)
        with self.looking():
            if self.auditor.rounds.passes_by(frame):
                self.audited(self.auditor.audit, user_stack(frame), user_frames(frame), False)

    def stepped_by_hand(self) -> None:
        """Count an update of the weights that no optimizer made."""
        self.passes.hand.forget()
        self.step += 1
        self.auditor.stepped_by_hand(self.step)
        if self.step in AUDITS:
            frame = sys._getframe(2)
            self.audited(self.auditor.audit, user_stack(frame), user_frames(frame), False)

    def retire(self) -> None:
        """End the watch after the requested number of steps, and leave the program alone."""
        with self.looking():
            self._end(user_frames(sys._getframe(2)), None)
        self.calls.stop()
        for sensor in self.sensors:
            # PyTorch is iterating over its optimizer hooks, so these stay, without effect.
            if sensor is not self.optimizers:
                sensor.stop()

    def audited(self, look: Callable[..., None], *args: Any) -> None:
        look(*args)

    def recording_eagerly(self) -> AbstractContextManager[None]:
        """Record the calls inside as a step of the program. For child processes."""
        return recording(AsStep(self.passes, self.step))

    # Used by the tripwires.

    def recording(self) -> bool:
        return self.pace.recording()

    def has_newcomer(self) -> bool:
        return self.auditor.optimizers.has_newcomer()

    def losses(self) -> Sequence[float]:
        return self.tripwires.course.losses

    def prepared(self) -> float:
        return self.pace.prepared

    def datasets(self) -> list[Any]:
        return [dataset for info in self.loaders.infos() if (dataset := info.dataset) is not None]

    def roots(self) -> list[nn.Module]:
        return self.modules.roots()

    def tops(self) -> list[nn.Module]:
        return self.modules.tops()

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
        return self.auditor.optimizers.tests_rates(optimizer)

    def schedule_of(self, optimizer: Optimizer) -> Schedule | None:
        return self.auditor.schedules.of(weakref.ref(optimizer))

    def keeps_rate(self, optimizer: Optimizer) -> bool:
        return self.auditor.optimizers.keeps_rate(optimizer)

    def overshot(self, optimizer: Optimizer, trial: RateTrial | None) -> None:
        self.auditor.optimizers.overshot(optimizer, trial)

    def known_optimizers(self) -> list[Optimizer]:
        return self.optimizers.known()

    def diagnose(self, ask: Callable[[], T]) -> T:
        """Run a diagnosis, which does not count against the budget."""
        began = cpu_seconds()
        try:
            return ask()
        finally:
            self.budget.exempt += cpu_seconds() - began

    def say(self, findings: list[Finding]) -> None:
        said = self.hold(findings)
        stop_on = self.config.stop_on
        self._to_stop = self._to_stop or (
            stop_on is not None and any(each.severity.rank >= stop_on.rank for each in said)
        )
        if self._explained is None:
            self.screen.release()

    def record_next_step(self, why: str) -> None:
        self.record.not_watched(
            f"step {self.step} could not be replayed ({why}); the next one is recorded"
        )
        self.pace.record()

    def stop_if_asked(self) -> None:
        if self._to_stop:
            raise Stop

    # Used by the program's runner.

    def program_failed(self, exception: BaseException) -> list[Finding]:
        """The findings on an exception that leaves the program."""
        if not isinstance(exception, Exception):
            self.auditor.rounds.left(frames_in(exception.__traceback__))
            return []
        if mark_of(exception) != self._explained or not self._said:
            state: dict[str, Any] = {"scope": None, "step": self.step, "phase": "program"}
            self._said = []
            lost = self.loader_sensor.lost(only_dead=True)
            if lost is not None:
                # PyTorch reports a dead worker wherever the program happens to be.
                frames = frames_in(exception.__traceback__)
                self.explain(
                    exception,
                    lambda: self.explainer.lost_worker(*lost, exception, frames, self.step),
                )
            if mark_of(exception) != self._explained or not self._said:
                self._explained = None
                self.explain(
                    exception,
                    lambda: (
                        self.bad_operand(exception)
                        or self.explainer.traceback(exception, [], **state)
                    ),
                )
        with self.looking():
            if not self._said:
                self._said = self._end(frames_in(exception.__traceback__), exception)
        return self._said

    def _end(self, frames: list[FrameType], exception: BaseException | None) -> list[Finding]:
        """Check once what the program left behind."""
        over, self.is_over = self.is_over, True
        if not over:
            self.hand.look()
            self.step += self.functional.open
        found = [] if over else self.tripwires.program_ended(frames, exception)
        if not over and not found and exception is not None:
            sites = tuple(sites_in(exception.__traceback__))
            if self.auditor.rounds.fails_in(sites, frames):
                return self.auditor.report_one("data/empty-epoch", sites, frames)
        if (
            not over
            and not found
            and exception is None
            and (self.tape.count or self.step or self.loaders.infos())
        ):
            self.auditor.audit((), frames, final=True)
        return found

    def bad_operand(
        self, exception: Exception, tensors: list[torch.Tensor] | None = None
    ) -> list[Finding]:
        """Explain an exception that a non-finite value caused, by the origin of that value."""
        stack, frames = (
            stack_of(exception),
            [*frames_in(exception.__traceback__), *frames_outside(exception)],
        )
        users = [each for each in frames if not is_library(each.f_code.co_filename)]
        return self.tripwires.operand_refused(exception, frames, users, stack, tensors)

    def sensor_failed(self, sensor: str, error: BaseException) -> None:
        if "WHENCE_DEBUG" in os.environ:
            traceback.print_exception(error)
        if isinstance(error, CannotStart):
            self.record.not_watched(str(error))
            return
        what = f"{type(error).__name__}: {error}"
        self.record.not_watched(f"the {sensor} sensor failed ({what}) and was turned off")

    def explain(self, exception: Exception, ask: Callable[[], list[Finding]]) -> None:
        mark = mark_of(exception)
        if mark == self._explained or self.is_looking or is_internal(type(exception)):
            return
        self._explained = mark
        self._said = []
        with self.looking():
            self._said = self.hold(self.diagnose(ask))
            self.passes.loosen()
        for trouble in self.explainer.troubles:
            self.record.not_watched(trouble)
        stop_on = self.config.stop_on
        if stop_on is not None and any(each.severity.rank >= stop_on.rank for each in self._said):
            raise Stop

    def hold(self, findings: list[Finding]) -> list[Finding]:
        """Record and show the findings that the user wants."""
        wanted = [
            each for each in findings if self.config.wants(each.rule) and not is_suppressed(each)
        ]
        for finding in wanted:
            repro = self.diagnoser.repros.pop(finding, None)
            if finding.rule in EXPLODING:
                self.tripwires.telling.expect(finding)
            if self.record.add(finding):
                if repro is not None:
                    self.record.keep_repro(repro)
                self.screen.hold(self.record.shown(finding))
        return [self.record.shown(each) for each in wanted]

    def got_on(self) -> None:
        """Note that the program makes a call: an exception was caught, unless `with` unwinds."""
        if self._explained is None:
            return
        exception = sys.exception()
        if exception is None or mark_of(exception) != self._explained:
            self._explained = None
            self._said = []
            self.screen.release()

    def interrupted(self) -> None:
        """Reset the state after Ctrl-C or the program's signal handler interrupted a check."""
        self.calls.step_back()
        self.is_looking = self.calls.muted = False
        self.routine.on = False
        restore_all()

    def looking(self) -> _Looking:
        """Mute the call sensor during a check, and contain Whence's own failures."""
        return _Looking(self)

    def _watching_again(
        self, run: Callable[[], None]
    ) -> tuple[BaseException | None, list[Finding]]:
        """Run a function with all sensors on; return its exception and findings.

        For child processes.
        """
        self.record, self.screen = Unread(), Unseen()
        self.config = replace(self.config, stop_on=None)
        self.calls = self.pace.calls = self.loader_sensor.listener.calls = CallSensor(
            self.call_listener
        )
        self.budget.lift()
        self.phases, self._said, self._explained, self.scope = [], [], None, None
        self.is_looking = False
        self.tripwires.begin_anew()
        self.passes.begin(self.step, recording=True)
        for sensor in self.sensors:
            sensor.failed = False
            sensor.start()
        self.calls.start()
        try:
            run()
        except Exception as exception:
            return exception, self._said if mark_of(exception) == self._explained else []
        finally:
            self.calls.stop()
        return None, []

    def watch_again(self, run: Callable[[], None]) -> list[tuple[Finding, Repro | None]]:
        """The same for a function that may succeed: all findings."""
        self._watching_again(run)
        assert isinstance(self.record, Unread)
        return [(each, self.record.kept.get(each)) for each in self.record.report.findings]

    def _recording_aside(self) -> AbstractContextManager[None]:
        """Record the calls inside on the tape. For child processes."""
        return recording(Aside(self.passes, self.step))


class _Looking:
    __slots__ = ("_began", "_muted", "_nested", "_session", "_signals")

    def __init__(self, session: Session) -> None:
        self._session = session
        self._signals = HeldSignals()

    def __enter__(self) -> None:
        session = self._session
        self._nested, session.is_looking = session.is_looking, True
        if not self._nested:
            program_ran()
            self._signals.hold()
        session.routine.on = False
        session.loader_sensor.waiting.take()
        self._muted, session.calls.muted = session.calls.muted, True
        if not self._nested:
            session.calls.step_aside()
        self._began = cpu_seconds()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> bool:
        session = self._session
        session.calls.muted = self._muted
        session.is_looking = self._nested
        if not self._nested:
            session.calls.step_back()
            if not session.calls.is_counting:
                session._seconds += cpu_seconds() - self._began
            session.watchdog.go_on()
        is_ours = isinstance(error, Exception) and not is_interrupt(error)
        if is_ours:
            if "WHENCE_DEBUG" in os.environ:
                traceback.print_exc()
            what = described(error).splitlines()[0]  # type: ignore[arg-type]
            session.record.not_watched(f"a failure that could not be explained ({what})")
        if due := self._signals.release():
            _deliver(due, error if is_ours else None)
        return is_ours


def _deliver(due: list[tuple[int, Handler]], error: BaseException | None) -> None:
    """Call the program's signal handlers that were held back; they may raise."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    for number, handler in due:
        try:
            handler(number, frame)
        except BaseException as raised:
            if raised.__context__ is error:
                raised.__context__ = None
            hide_own_frames(raised)
            raise


Mark = tuple[int, type, tuple[Site, ...]]


def mark_of(exception: BaseException) -> Mark:
    """Identify an exception without keeping it alive: its frames hold the program's tensors."""
    return id(exception), type(exception), stack_of(exception)[:1]


def running() -> Session | None:
    """The active watch of this process."""
    return next(iter(_watching), None)


def _forget_in_child() -> None:
    """Turn everything off in a forked child, such as a DataLoader worker."""
    for session in list(_watching):
        session.stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
