"""From a failure to findings: collect what the rules need while it is alive, and run them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic
from types import FrameType, TracebackType
from typing import Any

from whence.finding import Confidence, Finding, Severity
from whence.lineage.again import turns_of
from whence.lineage.datasets.refetching import (
    Kinds,
    kinds_of,
    make_again,
    raised_in_worker,
    stuck_at,
)
from whence.lineage.datasets.samples import MOST_SAMPLES
from whence.lineage.datasets.workers import fetch_until_it_ends
from whence.lineage.postmortem import Remains, evaluated, examine
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.explain import explain
from whence.source.handlers import Fate, fate_of
from whence.source.sites import Site, is_library, sites_in
from whence.tape.batches import LoaderBook, LoaderInfo, Lost
from whence.tape.beats import Beats
from whence.tape.builds import BuildBook
from whence.tape.failed import FailedCall, Fetching
from whence.tape.randomness import Kept
from whence.tape.scopes import ModuleBook, Scope
from whence.tape.tape import Call, Tape

REFUSALS = (TypeError, AttributeError, KeyError, IndexError)
"""The exceptions Python raises when an object does not fit an operation."""
RETRIES, LONGEST_RETRY = 20, 3.0

Recording = Callable[[], AbstractContextManager[None]]
Watching = Callable[[Callable[[], None]], tuple[BaseException | None, list[Finding]]]
"""Runs a function with all sensors on; returns its exception and findings. For child processes."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed fetch: its exception, the live frames above it, and whether it is caught."""

    exception: Exception
    outer: list[FrameType]
    fate: Fate
    step: int


class Explainer:
    """Turns failed calls, tracebacks and fetches into findings. One for each watch."""

    def __init__(
        self,
        tape: Tape,
        modules: ModuleBook,
        loaders: LoaderBook,
        record: Recording,
        watch: Watching,
    ) -> None:
        self.tape = tape
        self.modules = modules
        self.loaders = loaders
        self.record = record
        self.watch = watch
        self.builds = BuildBook()
        self.beats = Beats()
        self.troubles: list[str] = []
        self._known: dict[Any, list[Finding]] = {}

    def failed_call(
        self,
        call: Call,
        func: Any,
        args: Any,
        kwargs: Any,
        exception: Exception,
        frames: list[FrameType],
    ) -> list[Finding]:
        """Explain a call that raised. `frames` are all live frames, innermost first."""
        key = (
            call.name,
            call.site,
            type(exception),
            tuple((each.shape, each.dtype) for each in call.operands),
        )
        if key not in self._known:
            fate = fate_of(exception, frames)
            scene = self._scene(call, func, args, kwargs, exception, frames, fate)
            self._known[key] = [] if fate is Fate.INTERNAL else self._asked(scene)
        return self._known[key]

    def refused_backward(
        self,
        call: Call,
        func: Any,
        args: Any,
        kwargs: Any,
        exception: Exception,
        frames: list[FrameType],
    ) -> list[Finding]:
        """Explain a backward that autograd refuses.

        Where too little is left of what led to it, the iteration is run again.
        """
        found = self.failed_call(call, func, args, kwargs, exception, frames)
        if found and all(each.confidence is Confidence.PROVEN for each in found):
            return found
        return self.once_more(call.stack, exception, frames) or found

    def once_more(
        self, stack: tuple[Site, ...], exception: Exception, frames: list[FrameType]
    ) -> list[Finding]:
        """Explain a failure in an unrecorded step by rerunning it in a child process."""
        key = "again", stack[:1], type(exception)
        if key not in self._known:
            fate = fate_of(exception, frames)
            found = self._found_again(stack, exception, frames) if fate is not Fate.INTERNAL else []
            is_handled = fate is Fate.MENDED
            self._known[key] = (
                [replace(each, severity=Severity.INFO) for each in found] if is_handled else found
            )
        return self._known[key]

    def _found_again(
        self, stack: tuple[Site, ...], exception: Exception, frames: list[FrameType]
    ) -> list[Finding]:
        for turn in turns_of(stack, frames):
            with contextlib.suppress(NotPossible):
                if found := run_in_child(
                    partial(self._watched_again, turn.run, stack[0], exception), need=Need.ITERATION
                ):
                    return found
        return []

    def _watched_again(
        self, turn: Callable[[], None], site: Site, exception: Exception
    ) -> list[Finding]:
        self._known.clear()
        raised, found = self.watch(turn)
        again = sites_in(raised.__traceback__) if raised is not None else []
        is_same = type(raised) is type(exception) and any(
            (each.filename, each.f_lineno) == (site.filename, site.f_lineno) for each in again
        )
        return found if is_same else []

    def _asked(self, scene: FailedCall) -> list[Finding]:
        findings = explain(scene)
        self.troubles.extend(scene.troubles)
        return findings

    def traceback(
        self,
        exception: Exception,
        outer: list[FrameType],
        *,
        scope: Scope | None,
        step: int,
        phase: str,
    ) -> list[Finding]:
        """Explain an exception from its traceback. `outer` are the live frames above it."""
        remains = examine(exception.__traceback__)
        if not remains.frames:
            return []
        fate = fate_of(exception, outer)

        def ask(remains: Remains) -> list[Finding]:
            call = self._unfinished(
                remains, exception.__traceback__, outer, scope=scope, step=step, phase=phase
            )
            frames = [*remains.frames, *outer]
            return self._asked(
                self._scene(call, remains.func, *remains.known(), exception, frames, fate)
            )

        # An exception that a library handles internally may occur again in the program itself.
        key = (Site.of(remains.frames[0]), type(exception), str(exception), fate is Fate.INTERNAL)
        if key not in self._known:
            self._known[key] = [] if fate is Fate.INTERNAL else ask(remains)
            retried = remains.func is not None or isinstance(exception, REFUSALS)
            if not remains.is_whole and not self._known[key] and retried:
                # An operand is the result of a call that nobody kept: recompute it in a child
                # process.
                with contextlib.suppress(NotPossible):
                    self._known[key] = run_in_child(
                        lambda: ask(examine(exception.__traceback__, evaluated)),
                        need=Need.EXPRESSION,
                    )
        return self._known[key]

    def fetch(
        self,
        info: LoaderInfo,
        indices: list[Any] | None,
        worker: int | None,
        streams: Kept,
        exception: Exception,
        outer: list[FrameType],
        step: int,
    ) -> list[Finding]:
        """Explain a batch that could not be fetched, by fetching it again in a child process."""
        raised = raised_in_worker(exception)
        where = (
            tuple(map(str, indices))
            if indices is not None
            else (raised or str(exception), info.batches)
        )
        key = ("fetch", type(exception), where)
        if key not in self._known:
            failure = Failure(exception, outer, fate_of(exception, outer), step)
            self._known[key] = []
            if info.dataset is not None:
                with contextlib.suppress(NotPossible):
                    self._known[key] = self._fetched_again(info, indices, worker, streams, failure)
            if not self._known[key] and raised is not None:
                # It succeeded this time, or only its place in the worker is known.
                fetching = Fetching(info, indices or [], worker, raised.stage, raised)
                self._known[key] = self._asked(self._waiting(fetching, failure))
        return self._known[key]

    def _fetched_again(
        self,
        info: LoaderInfo,
        indices: list[Any] | None,
        worker: int | None,
        streams: Kept,
        failure: Failure,
    ) -> list[Finding]:
        kinds = kinds_of(failure.exception)
        if indices is None and info.is_iterable:
            indices = run_in_child(lambda: stuck_at(info, worker, kinds), need=Need.STREAM)
        if indices is None:
            return []

        def ask() -> list[Finding]:
            # The random state is not always known, and never that of a worker; other draws may fail
            # too.
            tries = RETRIES if not info.is_iterable else 1
            deadline = monotonic() + LONGEST_RETRY
            for other in range(tries):
                fetching = Fetching(info, indices[:MOST_SAMPLES], worker, redrawn=other > 0)
                found = self._made_again(
                    fetching, kinds, streams if not other else (), failure, other
                )
                if found or monotonic() > deadline:
                    return found
            return []

        return run_in_child(ask, need=Need.SAMPLES)

    def lost_worker(
        self,
        info: LoaderInfo,
        lost: list[Lost],
        exception: Exception,
        outer: list[FrameType],
        step: int,
    ) -> list[Finding]:
        """Explain a worker that died or hangs, by fetching its batch again."""
        fetching = Fetching(info, lost[0].indices[:MOST_SAMPLES], lost[0].number, lost=lost)
        fetching.ending = fetch_until_it_ends(info, lost[0].number, fetching.indices)
        return self._asked(
            self._waiting(fetching, Failure(exception, outer, fate_of(exception, outer), step))
        )

    def _waiting(self, fetching: Fetching, failure: Failure) -> FailedCall:
        """The program at its loop, without the state of the worker."""
        stack = tuple(Site.of(frame) for frame in failure.outer if _is_users(frame))
        call = self.tape.begin(
            next, (), {}, stack=stack, module=None, step=failure.step, phase="data"
        )
        scene = self._scene(call, next, (), {}, failure.exception, failure.outer, failure.fate)
        scene.fetching = fetching
        return scene

    def _made_again(
        self, fetching: Fetching, kinds: Kinds, streams: Kept, failure: Failure, other: int
    ) -> list[Finding]:
        try:
            make_again(fetching, kinds, streams, self.record, other=other)
        except Exception as exception:
            if not isinstance(exception, kinds):
                # It fails differently here.
                return []
            outer = failure.outer
            remains = examine(exception.__traceback__)
            frames = [
                *remains.frames,
                *(frame for made in fetching.returns for frame, _ in made),
                *outer,
            ]
            call = self._unfinished(
                remains, exception.__traceback__, outer, scope=None, step=failure.step, phase="data"
            )
            scene = self._scene(
                call, remains.func, remains.args, remains.kwargs, exception, frames, failure.fate
            )
            scene.fetching = fetching
            scene.surfaced = next((Site.of(frame) for frame in outer if _is_users(frame)), None)
            return explain(scene)
        return []

    def _unfinished(
        self,
        remains: Remains,
        traceback: TracebackType | None,
        outer: list[FrameType],
        *,
        scope: Scope | None,
        step: int,
        phase: str,
    ) -> Call:
        if remains.module is not None and (scope is None or scope.module is not remains.module):
            scope = Scope(weakref.ref(remains.module), type(remains.module).__name__, scope)
        stack = (*sites_in(traceback), *(Site.of(frame) for frame in outer if _is_users(frame)))
        return self.tape.begin(
            remains.func,
            remains.args,
            remains.kwargs,
            stack=stack,
            module=scope,
            step=step,
            phase=phase,
        )

    def _scene(
        self,
        call: Call,
        func: Any,
        args: Any,
        kwargs: Any,
        exception: Exception,
        frames: list[FrameType],
        fate: Fate,
    ) -> FailedCall:
        return FailedCall(
            call=call,
            func=func,
            args=args,
            kwargs=kwargs,
            exception=exception,
            frames=[frame for frame in frames if _is_users(frame)],
            fate=fate,
            builds=self.builds,
            beats=self.beats,
            tape=self.tape,
            modules=self.modules,
            loaders=self.loaders,
            record=self.record,
        )


def _is_users(frame: FrameType) -> bool:
    return not is_library(frame.f_code.co_filename)
