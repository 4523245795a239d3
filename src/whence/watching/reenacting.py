"""Rerun the loop iteration of a step that is not on the tape and has no stand-in there.

The iteration runs in a child process, from the program's own lines and variables, with all sensors
on. Its earlier side effects remain, so it may not be the same iteration: it is accepted if it gives
the same loss or the same graph. A different iteration is accepted with less confidence, if the
origin is the operation that autograd names, if a backward again turns a finite loss non-finite, or
if the program's own check stops at it again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from time import monotonic
from typing import Protocol

import torch

from whence.devices import restore_random_state
from whence.finding import Confidence, Finding
from whence.lineage.again import Turn, turns_before, turns_of
from whence.lineage.graph import alike
from whence.repro import Repro
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.nonfinite.telling import what_of
from whence.tape.replay import same_bits, trouble_in
from whence.tape.trip import BadState, Consequence, Notice, Trip
from whence.watching.telling import as_skipped
from whence.watching.tripwires import Tripwires

NOTICES = (Notice.LOSS, Notice.GRADIENT, Notice.OPERAND)
TRIES = 8
"""Where an iteration uses random streams that cannot be reset, another one may show the failure."""
LONGEST = 2.0
PATIENCE_SECONDS = 6.0
"""For all iterations together: one iteration of an outer loop may be a whole epoch."""
MANNER = "its loop iteration was run again in a child process"
BEFORE = "the previous loop iteration was run again in a child process"
ALIKE = "another loop iteration, run in a child process, gave the same result"

Answer = tuple[Finding, Repro | None]
Ask = Callable[[Turn, Trip], Answer | None]


class Host(Protocol):
    tripwires: Tripwires

    def watch_again(self, run: Callable[[], None]) -> list[tuple[Finding, Repro | None]]: ...


class Reenactor:
    """Reruns the iterations of one watch."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def __call__(self, trip: Trip) -> Answer | None:
        """What a rerun of the step shows; None if nothing."""
        if (
            trip.notice is Notice.STATE
            and isinstance(trip.evidence, BadState)
            and trip.optimizer is None
        ):
            # In an iteration that the program left early and that was not observed.
            return self._first_answer(
                turns_before(trip.stack, trip.frames), self._spoilt_again, trip
            )
        if trip.now.recorded or trip.notice not in NOTICES or trip.observed is None:
            return None
        turns = turns_of(trip.stack, trip.frames, [data for _, data in trip.now.deliveries])
        if trip.consequence is Consequence.SKIPPED:
            # The program may be in the next iteration already.
            turns = chain(turns, turns_before(trip.stack, trip.frames))
        return self._first_answer(turns, self._turned, trip)

    def _first_answer(self, turns: Iterable[Turn], ask: Ask, trip: Trip) -> Answer | None:
        deadline = monotonic() + PATIENCE_SECONDS
        for turn in turns:
            with contextlib.suppress(NotPossible):
                answer = run_in_child(
                    partial(ask, turn, trip), max(deadline - monotonic(), 0.0), need=Need.ITERATION
                )
                if answer is not None:
                    return answer
        return None

    def _spoilt_again(self, turn: Turn, trip: Trip) -> Answer | None:
        tripwires = self.host.tripwires
        tripwires.diagnoser.once_more = None

        def run() -> None:
            tripwires.manner = BEFORE
            turn.run()
            tripwires.next_pass()

        _set_back(trip)
        tripwires.statistics.begin_anew()
        reported = [
            each for each in self.host.watch_again(run) if each[0].rule == "nonfinite/state"
        ]
        return (
            (replace(reported[0][0], confidence=Confidence.LIKELY), reported[0][1])
            if reported
            else None
        )

    def _turned(self, turn: Turn, trip: Trip) -> Answer | None:
        tripwires = self.host.tripwires
        # Once is enough.
        tripwires.diagnoser.once_more = None

        def run() -> None:
            tripwires.manner = MANNER
            tripwires.passes.current.deliveries = list(trip.now.deliveries)
            turn.run()

        _set_back(trip)
        deadline = monotonic() + LONGEST
        for _ in range(TRIES):
            reported = self.host.watch_again(run)
            found = [
                each for each in reported if each[0].rule.startswith(("nonfinite/", "data/"))
            ] or [
                (each, tripwires.diagnoser.repros.get(each)) for each in tripwires.left_over(trip)
            ]
            if found:
                return self._believed(*found[0], tripwires.loss if turn.is_whole else None, trip)
            if monotonic() > deadline:
                break
        return None

    def _believed(
        self, found: Finding, repro: Repro | None, loss: torch.Tensor | None, trip: Trip
    ) -> Answer | None:
        if found.rule == "nonfinite/gradient-applied" and found.origin.line == found.symptom.line:
            # This finding does not know the origin either.
            return None
        named = trip.live.name if trip.live is not None and not trip.live.entered else None
        if named is not None and found.origin.op != named:
            return None
        if loss is not None and trip.observed is not None and _is_same(loss, trip.observed):
            # Certain if the finite loss is bit-identical or autograd names the operation; otherwise
            # the initial state may have differed.
            is_certain = named is not None or not trouble_in(trip.observed)
            return (found if is_certain else replace(found, confidence=Confidence.LIKELY)), repro
        again = trip.notice is Notice.GRADIENT and found.rule == "nonfinite/backward"
        checked = trip.notice is Notice.OPERAND and found.symptom.line == trip.stack[0].f_lineno
        # The program checked its loss and left the iteration, and does so again.
        skipped = trip.consequence is Consequence.SKIPPED and self.host.tripwires.asked
        if skipped:
            found = as_skipped(replace(found, symptom=replace(found.symptom, what=what_of(trip))))
        return (
            (_only_alike(found), repro)
            if named is not None or again or checked or skipped
            else None
        )


def _set_back(trip: Trip) -> None:
    """Restore the random state from when the pass began."""
    state = next((mark.state for mark in trip.now.marks if mark.kind == "start"), None)
    if state is not None:
        restore_random_state(state)


def _is_same(loss: torch.Tensor, observed: torch.Tensor) -> bool:
    """Whether the losses are equal. Since all NaNs look alike, their graphs must match too."""
    return same_bits(loss, observed) and (
        not trouble_in(observed) or (loss.requires_grad and alike(loss, observed))
    )


def _only_alike(found: Finding) -> Finding:
    return replace(
        found,
        confidence=Confidence.LIKELY,
        proof=replace(found.proof, replay=f"not bit-identical; {ALIKE}"),
    )
