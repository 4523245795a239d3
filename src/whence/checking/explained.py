"""One training step on a copy under its own watch, and the findings of that step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch import nn

from whence.checking.calling import Pass
from whence.checking.constructors import built_at
from whence.config import Config
from whence.finding import Finding, Severity, Span
from whence.record import Record
from whence.sensors.watchdog import Watchdog
from whence.source.handlers import Fate
from whence.source.spots import Spot
from whence.tape.scopes import Scope
from whence.tape.tape import Call
from whence.watching.explaining import Explainer

# Skip rules that need a loop: there is only one step.
FAMILIES = ("shape", "dtype", "device", "data", "loss", "gradient", "nonfinite", "checkpoint")


NOWHERE = Spot("", Span(0, 0, 0, 0), "")
"""No place: model and loss are PyTorch's own and called by Whence."""


class Silence:
    """A screen that shows nothing."""

    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


class Asleep(Watchdog):
    """A watchdog without a thread: one step on a copy needs no hang detection."""

    def start(self) -> None: ...


class Plainly(Explainer):
    """Explain every exception.

    Whence or the caller of the check catches it, which does not make it expected by the program.
    """

    def failed_call(
        self,
        call: Call,
        func: Any,
        args: Any,
        kwargs: Any,
        exception: Exception,
        frames: list[FrameType],
    ) -> list[Finding]:
        scene = self._scene(call, func, args, kwargs, exception, frames, Fate.UNCAUGHT)
        scene.place = NOWHERE
        return self._asked(scene)

    def traceback(
        self,
        exception: Exception,
        outer: list[FrameType],
        *,
        scope: Scope | None,
        step: int,
        phase: str,
    ) -> list[Finding]:
        del outer  # Who catches it does not matter.
        return super().traceback(exception, [], scope=scope, step=step, phase=phase)


@dataclass(frozen=True, slots=True)
class Watched:
    raised: Exception | None
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Finding | None:
        """Return the most severe finding above a note."""
        serious = [each for each in self.findings if each.severity is not Severity.INFO]
        return max(serious, key=lambda each: each.severity.rank, default=None)


def watch_step(model: nn.Module, step: Callable[[], Any]) -> Watched:
    """Run a step and collect the findings. An exception is explained and kept."""
    from whence.watching.session import Session

    session = Session(Config(select=FAMILIES), Record(), Silence())
    usual = session.explainer
    session.explainer = Plainly(
        session.tape, session.modules, session.loaders, usual.record, usual.watch
    )
    session.watchdog = Asleep(session.watchdog.listener, session.config.hang_after)
    raised: Exception | None = None
    session.start()
    for module, site in built_at(model):
        session.modules.note_construction(module, (site,))
    try:
        step()
    except Exception as error:
        raised = error
        session.program_failed(error)
    finally:
        session.stop()
        session.passes.forget()
        session.tripwires.forget()
        session.auditor.weights.forget()
    return Watched(raised, session.record.report.findings)


def train_once(run: Callable[[], Pass], weights: Sequence[torch.Tensor]) -> Pass:
    """Run a whole step: forward, backward and a small update."""
    done = run()
    optimizer = torch.optim.SGD(weights, lr=1e-6)
    optimizer.zero_grad()
    done.loss.backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    return done
