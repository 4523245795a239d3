"""From a tripwire to findings: replay the step, find the origin, run the rules."""

from __future__ import annotations

import contextlib
import os
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import torch

from whence.devices import has_room
from whence.finding import Confidence, Finding, described
from whence.lineage.births import (
    Contents,
    attempt,
    birth_by_what_is_left,
    carried_from,
    find_birth,
    is_deliberate,
    is_from_outside,
    is_mask,
    is_read,
    still_bad,
)
from whence.lineage.gradients import GradientWatch
from whence.lineage.graph import alike
from whence.lineage.live import LiveBirth, as_born, only_site
from whence.lineage.rehearsing import birth_in_rehearsal
from whence.lineage.updating import run_again
from whence.lineage.variables import birth_before, birth_in_variables
from whence.repro import Repro, repro_of
from whence.rerun.child import NotPossible, run_where_safe
from whence.rerun.permission import refusals, with_gap
from whence.rules.rule import trip_rules
from whence.source.interrupts import is_interrupt
from whence.source.sites import Site
from whence.tape.batches import BatchLeaf, LoaderBook
from whence.tape.hand import weights_under
from whence.tape.handles import handles_in
from whence.tape.passes import Pass, PassBook, Score, structure_of
from whence.tape.replay import (
    Plan,
    Run,
    Unreplayable,
    plan_for,
    plan_from,
    replay,
    same_bits,
    trouble_in,
)
from whence.tape.scopes import ModuleBook
from whence.tape.slices import BACKWARDS, is_final
from whence.tape.tape import Call, CompiledRegion, Tape, Value
from whence.tape.trip import BadUpdate, Born, Consequence, GradientBirth, Notice, Trip

RANKS = list(Confidence)
Recording = Callable[[], AbstractContextManager[None]]


class Diagnoser:
    """Diagnoses the trips of one watch."""

    def __init__(
        self,
        tape: Tape,
        passes: PassBook,
        modules: ModuleBook,
        loaders: LoaderBook,
        record: Recording,
    ) -> None:
        self.tape = tape
        self.passes = passes
        self.modules = modules
        self.loaders = loaders
        self.record = record
        self.once_more: Callable[[Trip], tuple[Finding, Repro | None] | None] | None = None
        """Runs a step again that cannot be replayed, and returns what was found."""
        self.backwards_at: Callable[[], list[Site]] = list
        """The places of the last backward calls."""
        self.warned: Sequence[tuple[Site, ...]] = ()
        """Places where NumPy has warned about its own results."""
        self.repros: dict[Finding, Repro | None] = {}
        """The repros of findings that are not reported yet."""

    def trip(
        self,
        notice: Notice,
        consequence: Consequence,
        *,
        step: int,
        stack: tuple[Site, ...],
        frames: list[FrameType],
        observed: torch.Tensor | None,
        **more: Any,
    ) -> Trip:
        return Trip(
            frames=frames,
            tape=self.tape,
            modules=self.modules,
            loaders=self.loaders,
            record=self.record,
            warned=self.warned,
            notice=notice,
            consequence=consequence,
            step=step,
            stack=stack,
            now=self.passes.current,
            observed=observed,
            unseen=self.passes.hand.within,
            **more,
        )

    def diagnose(self, trip: Trip) -> list[Finding]:
        """Find the origin and run the rules; the first rule that answers wins.

        If the step runs the program's own code, all of this happens in a child process.
        """
        recorded = (
            self.passes.calls()
            if trip.now.recorded
            else [call for score in self.passes.scores for call in score.calls]
        )

        def ask() -> tuple[list[Finding], list[Repro | None], str, list[str]]:
            findings = self._diagnose(trip)
            return (
                findings,
                [self.repros.get(each) for each in findings],
                trip.could_not,
                trip.troubles,
            )

        with contextlib.suppress(NotPossible):
            findings, repros, trip.could_not, troubles = run_where_safe(recorded, ask)
            trip.troubles[:] = troubles
            self.repros.update(zip(findings, repros, strict=True))
            return findings
        # Without a child: whatever can be determined without replaying the step.
        return self._diagnose(trip)

    def _diagnose(self, trip: Trip) -> list[Finding]:
        before = refusals()
        if trip.now.is_over:
            self._look_back(trip)
        elif found_again := self._look(trip):
            return found_again
        trip.in_update = self._is_in_update(trip)
        for ask in trip_rules():
            try:
                found = ask(trip)
            except Exception as error:
                if is_interrupt(error):
                    raise
                what = described(error).splitlines()[0]
                trip.troubles.append(f"a rule failed on a {trip.notice.name.lower()} ({what})")
                if "WHENCE_DEBUG" in os.environ:
                    traceback.print_exc()
                continue
            if found is not None:
                found = with_gap(found, before)
                if trip.now.is_approximate:
                    found = replace(
                        found, confidence=min(found.confidence, Confidence.LIKELY, key=RANKS.index)
                    )
                # The gradients of a finished step are gone, so a repro is made from its replay or
                # not at all.
                self.repros[found] = (
                    repro_of(trip, found) if trip.run is not None or not trip.now.is_over else None
                )
                return [found]
        return []

    def _look_back(self, trip: Trip) -> None:
        """Diagnose a step that was read late.

        Weights, gradients and variables belong to a later step by now, so only what was kept of the
        step itself is used.
        """
        if trip.now.has_leaves:
            self._replay(trip)
        else:
            trip.could_not = "its inputs were freed before its values arrived"
        if trip.born is None and trip.gradient is None:
            self._look_at_inputs(trip)

    def _look(self, trip: Trip) -> list[Finding]:
        """The findings of a rerun of the step in a child process, if one was needed."""
        if not trip.now.recorded and not trip.given:
            self._look_at_last_update(trip)
        if trip.notice not in (Notice.UPDATE, Notice.RATE) and not isinstance(
            trip.evidence, BadUpdate
        ):
            self._replay(trip)
            if (
                trip.now.recorded
                and not trip.given
                and (trip.born is None or trip.born.leaf is not None)
            ):
                self._look_at_last_update(trip)
        is_found = isinstance(trip.evidence, BadUpdate)
        if trip.born is None and trip.gradient is None and not is_found:
            if self.once_more is not None and (answer := self.once_more(trip)) is not None:
                self.repros[answer[0]] = answer[1]
                return [answer[0]]
            self._look_without_replay(trip)
            if trip.given and not self._is_certain(trip.born):
                self._look_at_last_update(trip)
        return []

    def _is_certain(self, born: Born | None) -> bool:
        """Whether some input of the call is left.

        Otherwise the inputs may not have been finite either.
        """
        call = born.call if born is not None else None
        if call is None or not call.operands:
            return born is not None
        contents = Contents(self.tape, Run())
        return any(contents.of(each) is not None for each in call.operands)

    def plan_of_loss(
        self, loss: torch.Tensor, frames: list[FrameType]
    ) -> tuple[Value, Plan] | None:
        """A plan that computes the loss of the current pass, if there is one."""
        trip = self.trip(
            Notice.LOSS, Consequence.APPLIED, step=0, stack=(), frames=frames, observed=loss
        )
        for prepare in self._ways(trip):
            try:
                target, plan = prepare()
                _require_room(plan)
                if run_where_safe(plan.calls, partial(_repeats, plan, target, loss, trip.now)):
                    return target, plan
            except (Unreplayable, NotPossible):
                continue
        return None

    def prepare(self, loss: torch.Tensor, frames: list[FrameType]) -> list[tuple[Value, Plan]]:
        """Plans that replay the current pass up to this loss, with the current variables."""
        trip = self.trip(
            Notice.LOSS, Consequence.APPLIED, step=0, stack=(), frames=frames, observed=loss
        )
        found = []
        for way in self._ways(trip):
            with contextlib.suppress(Unreplayable):
                found.append(way())
        return found

    def _look_at_last_update(self, trip: Trip) -> None:
        """Rerun the lines of the last update, if it lost the weights under the loss."""
        if trip.observed is None or not trip.step:
            return
        weights = list(trip.given) or (
            weights_under(trip.observed) if trip.notice is Notice.LOSS else []
        )
        lost = [each for each in weights if trouble_in(each)]
        remade = (
            run_again(trip, weights, self.passes.hand.before, self.backwards_at()) if lost else None
        )
        if remade is not None:
            names = tuple(
                self.modules.name_of(each) or _variable_of(each, trip.frames) for each in lost
            )
            trip.evidence = BadUpdate(
                "", names, lost[0].dtype, None, in_float32=False, remade=remade
            )

    def _is_in_update(self, trip: Trip) -> bool:
        born = trip.born
        if born is None or born.output is None or trip.observed is None:
            return False
        weights = (
            [trip.observed]
            if trip.given
            else weights_under(trip.observed)
            if trip.notice is Notice.LOSS
            else []
        )
        return any(map(trouble_in, weights)) and self.passes.hand.is_made_of_gradients(born.output)

    # The replay.

    def _replay(self, trip: Trip) -> None:
        for prepare in self._ways(trip):
            try:
                target, plan = prepare()
                _require_room(plan)
                watch = GradientWatch()
                run = replay(plan, at_backward=watch if trip.notice is Notice.GRADIENT else None)
            except (Unreplayable, RuntimeError) as reason:
                trip.could_not = trip.could_not or str(reason).split("\n")[0]
                continue
            if target not in run.contents and trip.notice is not Notice.GRADIENT:
                continue
            if trip.observed is None:
                # The program kept nothing of this step, so there is only the replay to compare
                # with.
                if target not in run.troubles:
                    continue
            elif trip.now.is_approximate:
                if trip.notice is Notice.LOSS and target not in run.troubles:
                    trip.could_not = (
                        trip.could_not or "the replay with substitute weights gave a finite loss"
                    )
                    continue
            elif not _faithful(run, target, trip.observed, plan, trip.now):
                trip.could_not = trip.could_not or "the replay gave a different loss"
                if not plan.own:
                    continue
            trip.target, trip.plan, trip.run = target, plan, run
            self._find(trip, run, watch)
            if trip.born is None and _is_compiled(plan):
                # Eager and compiled results differ, so the replay shows nothing.
                return
            if trip.born is not None or trip.gradient is not None:
                trip.could_not = "" if trip.run is not None else "its inputs have been freed"
                return

    def _ways(self, trip: Trip) -> list[Callable[[], tuple[Value, Plan]]]:
        """The pass itself where it is on the tape; otherwise each score that can stand for it."""
        now, backward = trip.now, trip.notice is Notice.GRADIENT
        if now.recorded:
            value = trip.target or (
                self.tape.known_value(trip.observed) if trip.observed is not None else None
            )
            if value is None:
                return []
            calls = (
                _with_one_backward(self.passes.calls(), value)
                if trip.by_last_backward
                else self.passes.calls()
            )
            return [lambda: (value, plan_for(calls, now, self.tape, [value], backward=backward))]
        if trip.prepared:
            return [partial(tuple[Value, Plan], each) for each in trip.prepared]
        signature = tuple(batch.signature for batch, _ in now.deliveries)
        ways: list[Callable[[], tuple[Value, Plan]]] = []
        for score in self.passes.scores:
            target = _nth_loss(score.calls, max(now.backwards, 1))
            if trip.notice is Notice.STATE:
                target = next(
                    (value for value in score.changed if value.tensor is trip.observed), None
                )
            if target is not None and score.signature == signature:
                ways.append(partial(_after, score, target, trip, backward))
        return ways

    def _find(self, trip: Trip, run: Run, watch: GradientWatch) -> None:
        assert trip.plan is not None
        assert trip.target is not None
        if trip.target in run.troubles:
            trip.born = self._birth(trip.target, run, trip.plan)
            if (
                trip.born is not None
                and trip.born.leaf is not None
                and _is_new(trip.born.leaf, trip.plan)
            ):
                self._made_before(trip, trip.born)
            elif (
                trip.born is not None
                and trip.born.call is not None
                and trip.born.call.name in BACKWARDS
            ):
                self._within_backward(trip, trip.born.call)
        elif trip.notice is Notice.GRADIENT:
            trip.gradient = watch.find(run)
            if trip.gradient is None and trip.plan.own:
                self._spoilt_gradient(trip)
            elif trip.gradient is not None and trip.gradient.call is not None:
                self._bad_operand(trip, trip.gradient, run)

    def _bad_operand(self, trip: Trip, gradient: GradientBirth, run: Run) -> None:
        """Find the call that made an operand non-finite, if that explains the derivative."""
        assert trip.plan is not None
        assert gradient.call is not None
        for value in gradient.call.operands:
            if value not in run.troubles:
                continue
            born = self._birth(value, run, trip.plan)
            if born is not None and born.leaf is not None and not value.requires_grad:
                if not is_mask(born.leaf, Contents(self.tape, run).of(born.leaf)):
                    # Squashed by a gate or a ReLU, it left the loss finite, but it still came with
                    # the data.
                    trip.born, trip.gradient, trip.target = born, None, value
                    trip.notice, trip.observed = Notice.INPUT, run.contents[value]
                return
            if born is None or born.call is None or is_deliberate(born.call):
                return
            if not value.requires_grad:
                trip.born, trip.gradient, trip.target = born, None, value
                trip.notice, trip.observed = Notice.LOSS, run.contents[value]
            elif born.output is not None and born.output.shape == tuple(gradient.gradient.shape):
                # Later calls hide it from the loss; its own derivative would not be finite either.
                trip.gradient = replace(gradient, call=born.call)
            return

    def _within_backward(self, trip: Trip, call: Call) -> None:
        """Find the node that made a gradient inside the loss (create_graph) non-finite."""
        watch = GradientWatch()
        run = trip.again(at_backward=lambda each, run: watch(each, run) if each is call else None)
        trip.gradient = watch.find(run)
        if trip.gradient is not None:
            trip.born = None

    def _spoilt_gradient(self, trip: Trip) -> None:
        """Find what the program did to gradients that backward left finite."""
        for tensor in trip.bad_gradients:
            value = self.tape.known_value(tensor)
            if value is None or value.call is None:
                continue
            try:
                plan = plan_for(self.passes.calls(), trip.now, self.tape, [value], backward=True)
                run = replay(plan)
            except Unreplayable:
                continue
            if value in run.troubles:
                trip.target, trip.plan, trip.run, trip.observed = value, plan, run, tensor
                trip.born = self._birth(value, run, plan)
                return

    def _look_without_replay(self, trip: Trip) -> None:
        """Use what is still alive, and what the tape can recompute without running the step."""
        for tensor in (*trip.bad_gradients, trip.observed):
            value = self.tape.known_value(tensor) if tensor is not None else None
            if value is not None and trouble_in(tensor):
                trip.born = self._birth(value, Run(), None)
                return
        found: tuple[LiveBirth, Site | None] | None = None
        live, how = trip.live, "read from the program's variables"
        files = {
            each.filename
            for each in (*trip.stack, *(site for call in self.tape.calls for site in call.stack))
        }
        if live is not None and not live.entered:
            found, how = (
                (live, only_site(live.name, files)),
                "read from the autograd graph",
            )
        elif trip.notice in (Notice.LOSS, Notice.INPUT) and trip.observed is not None:
            found = birth_in_variables(trip.observed, trip.frames, self.tape)
        if found is None and live is not None:
            found, how = (
                birth_before(live, files, self.tape),
                f"traced back from the inputs of {live.name}",
            )
        if found is not None:
            trip.live = found[0]
            trip.born = as_born(*found, self.tape, trip.step)
            trip.could_not += f"; {how}"
        elif trip.born is None:
            self._look_at_inputs(trip)

    def _look_at_inputs(self, trip: Trip) -> None:
        """Check the inputs of modules in a step without a replay: were they delivered bad?"""
        for tensor in (each for entry in trip.now.entries for each in entry if each is not None):
            trouble, value = trouble_in(tensor), self.tape.known_value(tensor)
            if not trouble or value is None or not isinstance(value.leaf, BatchLeaf):
                continue
            if trouble != "inf" or not is_mask(value, tensor):
                trip.born = self._birth(value, Run(), None)
                trip.could_not += "; the value came with the batch"
                return

    def _made_before(self, trip: Trip, born: Born) -> None:
        """Find the origin of a value that entered the replay through a variable.

        The recording has the line, but the values of another step.
        """
        assert trip.plan is not None
        assert born.leaf is not None
        tensor, made, path = trip.plan.resolve(born.leaf), born.leaf.call, born.path
        number: float | None = None
        found = birth_in_variables(tensor, trip.frames, self.tape) if not trip.now.is_over else None
        if found is None and made is not None:
            made = carried_from(made)
            kept = still_bad(made)
            earlier = self._birth(kept, Run(), None) if kept is not None else None
            if earlier is not None and earlier.call is not None:
                # The value was made long ago and still exists, so the recording has everything that
                # led to it.
                trip.born = replace(earlier, path=(*earlier.path, *born.path))
                trip.plan = trip.run = None
                return
            rehearsed = birth_in_rehearsal(born.leaf, tensor, self.tape)
            if rehearsed is not None and rehearsed[0].call is not None:
                at, number = rehearsed
                made, path = rehearsed[0].call, (*at.path, *path)
            if not is_read(made):
                found = LiveBirth(made.name, {}, tensor, rehearsed=number), made.site
        if found is None:
            return
        trip.live = found[0]
        trip.born = replace(as_born(*found, self.tape, trip.step), path=path)
        trip.plan = trip.run = None

    def _as_written(self, leaf: Value) -> Value:
        """The last value written to a tensor's memory by another name: `weight.data -= ...`."""
        since = leaf.call.number if leaf.call is not None else -1
        for call in reversed(self.tape.calls):
            if call.number <= since:
                break
            for before, after in zip(call.changed, call.outputs, strict=False):
                if before.storage == leaf.storage != 0:
                    return after
        return leaf

    def _birth(self, value: Value, run: Run, plan: Plan | None) -> Born | None:
        """Search the replayed calls, then earlier ones whose operands can be recomputed."""
        contents, replayed = Contents(self.tape, run), set(plan.calls if plan is not None else ())

        def is_leaf(value: Value) -> bool:
            call = value.call
            return (
                call is None
                or is_from_outside(call)
                or isinstance(value.leaf, BatchLeaf)
                or call.phase == "optimizer"
                or (plan is not None and value in run.leaves and _is_new(value, plan))
                or (call not in replayed and not _can_be_had_again(call, contents))
                or (call not in replayed and _is_changed_since(value, contents))
            )

        born = find_birth(value, contents, is_leaf)
        if born.leaf is not None and plan is not None and _is_new(born.leaf, plan):
            return born
        if born.leaf is None or (_from_outside(born.leaf) and not _is_made_by_hand(born.leaf)):
            return born
        left = birth_by_what_is_left(self._as_written(born.leaf), self.tape, run)
        if left is not None:
            return replace(left, path=(*left.path, *born.path))
        return born if _from_outside(born.leaf) else None


def _can_be_had_again(call: Call, contents: Contents) -> bool:
    if call.has_foreign or call.inner:
        return False
    return contents.knows_operands(call) or contents.knows_carrier(call)


def _is_new(leaf: Value, plan: Plan) -> bool:
    """Whether this step has another tensor there than the recorded one, which a call made."""
    return not plan.own and not _from_outside(leaf) and plan.resolve(leaf) is not leaf.tensor


def _is_changed_since(value: Value, contents: Contents) -> bool:
    """Whether a tensor was finite when its call made it, so it was overwritten by another name."""
    tensor, call = value.tensor, value.call
    if tensor is None or call is None or not trouble_in(tensor):
        return False
    made = attempt(call, contents.of, value)
    return made is not None and not trouble_in(made)


def _is_made_by_hand(leaf: Value) -> bool:
    """Whether the program itself has changed or made a weight."""
    call = leaf.call
    return (
        call is not None
        and call.phase == "program"
        and not is_from_outside(call)
        and not isinstance(leaf.leaf, BatchLeaf)
    )


def _require_room(plan: Plan) -> None:
    """Raise if a device lacks room: a replay keeps everything it computes."""
    sizes: dict[torch.device, int] = {}
    for call in plan.calls:
        for value in call.outputs:
            sizes[value.device] = sizes.get(value.device, 0) + value.bytes
    for device, size in sizes.items():
        if not has_room(device, size):
            raise Unreplayable(f"{device} has no room for a replay")


def _repeats(plan: Plan, target: Value, loss: torch.Tensor, now: Pass) -> bool:
    """Whether a replay gives the observed loss."""
    return _faithful(replay(plan), target, loss, plan, now)


def _is_compiled(plan: Plan) -> bool:
    return any(isinstance(call.func, CompiledRegion) for call in plan.calls)


def _after(score: Score, target: Value, trip: Trip, backward: bool) -> tuple[Value, Plan]:
    if trip.by_last_backward:
        score = replace(score, calls=tuple(_with_one_backward(score.calls, target)))
    return target, plan_from(score, trip.now, trip.frames, [target], backward=backward)


def _from_outside(leaf: Value) -> bool:
    """Whether the tape does not know how a value was made, rather than cannot remake it."""
    call = leaf.call
    weight = leaf.tensor is not None and leaf.tensor.is_leaf and leaf.requires_grad
    return (
        call is None
        or is_from_outside(call)
        or weight
        or isinstance(leaf.leaf, BatchLeaf)
        or call.phase == "optimizer"
    )


def _faithful(
    run: Run, target: Value, observed: torch.Tensor | None, plan: Plan, now: Pass
) -> bool:
    """Whether a replay gave the observed value.

    Since all NaNs look alike, their graphs must match too.
    """
    tensor = run.contents.get(target)
    if tensor is None or observed is None or not same_bits(tensor, observed):
        return False
    if plan.own or _is_compiled(plan) or not trouble_in(observed):
        return True
    return structure_of(tensor) == now.structure if now.is_over else alike(tensor, observed)


def _variable_of(tensor: torch.Tensor, frames: Sequence[FrameType]) -> str:
    found = (
        handle.text for frame in frames for handle, each in handles_in(frame) if each is tensor
    )
    return next(found, f"a weight of shape {tuple(tensor.shape)}")


def _with_one_backward(calls: Sequence[Call], loss: Value) -> list[Call]:
    """Drop the other backwards that accumulate gradients, keeping the one of this loss."""
    return [each for each in calls if not is_final(each) or loss in each.operands]


def _nth_loss(calls: tuple[Call, ...], number: int) -> Value | None:
    backwards = [call for call in calls if is_final(call) and call.operands]
    return backwards[number - 1].operands[0] if 0 < number <= len(backwards) else None
