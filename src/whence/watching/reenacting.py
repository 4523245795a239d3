"""A step that is not on the tape, and that nothing on the tape can stand for: its turn of the loop is run once more.

In a child process, from the program's own lines and variables, and with everything watched. What the turn has changed already
stays changed, so that it may not be the same turn: it is believed if it comes to the same loss, or to the same graph. Another
turn may show it as well, and is believed a little less: where it is born in the operation that autograd says it was, where again
a backward makes it of a finite loss, or where the program's own check stops at it again.
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
"""Where a turn draws from streams that nobody can set back, another one may show it as well."""
LONGEST = 2.0
PATIENCE_SECONDS = 6.0
"""For all turns together: that of an outer loop may be a whole epoch."""
MANNER = "its turn of the loop was run once more, in a child process"
BEFORE = "the turn of the loop before was run once more, in a child process"
ALIKE = "another turn of the loop was run in a child process, and came to the same"

Answer = tuple[Finding, Repro | None]
Ask = Callable[[Turn, Trip], Answer | None]


class Host(Protocol):
    tripwires: Tripwires

    def watch_again(self, run: Callable[[], None]) -> list[tuple[Finding, Repro | None]]: ...


class Reenactor:
    """One for each watch."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def __call__(self, trip: Trip) -> Answer | None:
        """What is found out about a step by running it once more; None if that shows nothing."""
        if (
            trip.notice is Notice.STATE
            and isinstance(trip.evidence, BadState)
            and trip.optimizer is None
        ):
            # In a turn that the program left early, and which nobody saw.
            return self._first_answer(
                turns_before(trip.stack, trip.frames), self._spoilt_again, trip
            )
        if trip.now.recorded or trip.notice not in NOTICES or trip.observed is None:
            return None
        turns = turns_of(trip.stack, trip.frames, [data for _, data in trip.now.deliveries])
        if trip.consequence is Consequence.SKIPPED:
            # The program may be in the next turn already.
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
        told = [each for each in self.host.watch_again(run) if each[0].rule == "nonfinite/state"]
        return (replace(told[0][0], confidence=Confidence.LIKELY), told[0][1]) if told else None

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
            told = self.host.watch_again(run)
            found = [each for each in told if each[0].rule.startswith(("nonfinite/", "data/"))] or [
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
            # It does not know the birth either.
            return None
        named = trip.live.name if trip.live is not None and not trip.live.entered else None
        if named is not None and found.origin.op != named:
            return None
        if loss is not None and trip.observed is not None and _is_same(loss, trip.observed):
            # A finite loss, bit for bit, or the operation that autograd names: else what the turn began with may have been other.
            is_certain = named is not None or not trouble_in(trip.observed)
            return (found if is_certain else replace(found, confidence=Confidence.LIKELY)), repro
        again = trip.notice is Notice.GRADIENT and found.rule == "nonfinite/backward"
        checked = trip.notice is Notice.OPERAND and found.symptom.line == trip.stack[0].f_lineno
        # The program looked at its loss and left the turn, and does so again.
        skipped = trip.consequence is Consequence.SKIPPED and self.host.tripwires.asked
        if skipped:
            found = as_skipped(replace(found, symptom=replace(found.symptom, what=what_of(trip))))
        return (
            (_only_alike(found), repro)
            if named is not None or again or checked or skipped
            else None
        )


def _set_back(trip: Trip) -> None:
    """The random numbers are those of when the pass began."""
    state = next((mark.state for mark in trip.now.marks if mark.kind == "start"), None)
    if state is not None:
        restore_random_state(state)


def _is_same(loss: torch.Tensor, observed: torch.Tensor) -> bool:
    """One NaN is like another: there the graphs have to be alike as well."""
    return same_bits(loss, observed) and (
        not trouble_in(observed) or (loss.requires_grad and alike(loss, observed))
    )


def _only_alike(found: Finding) -> Finding:
    return replace(
        found,
        confidence=Confidence.LIKELY,
        proof=replace(found.proof, replay=f"not bit-identical; {ALIKE}"),
    )
