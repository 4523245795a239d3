"""Schedules whose steps are not what they were counted in: epochs, batches, samples."""

from __future__ import annotations

import ast
from itertools import pairwise

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.ledgers.schedules import Schedule
from whence.rules.optimizer.by_hand import files_of, rate_gone, rate_set_in_vain
from whence.rules.optimizer.plateau import goes_the_other_way, other_mode
from whence.rules.optimizer.stepping import (
    behind_each_update,
    behind_the_batches,
    counted_in_batches,
    put_behind,
    update_behind,
)
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import spot_at, tell_silent
from whence.source.blocks import target_of
from whence.source.spots import Spot
from whence.source.text import last_name, tree_of
from whence.source.uncalled import UNMADE, called, uncalled_in_program

ENOUGH = 10
FEWEST_EPOCHS = 3
FEWEST_UPDATES = 50
HARDLY = 0.5
FEWEST_BATCHES = 4
"""In an epoch: with fewer it makes little difference which of the two a schedule counts."""
LITTLE = 0.12
"""The mean rate of a run as a share of the first one."""
LOW = 0.05
UNPLANNED = 5e-5
"""Of the first rate: who has a rate decay with every batch lets it end at a hundredth of that, or at a ten-thousandth, and not below."""
MOVING = 0.95
ONCE = "Call the scheduler's step once an epoch, outside of the loop over batches; or count its steps in batches."


@audit_rule("optimizer/schedule", Rank.CAUSE)
def schedule(audit: Audit) -> Finding | None:
    """The scheduler is stepped at the wrong place, rate or order.

    What happened
        A schedule that counts epochs is stepped for every batch, or one that counts batches once an epoch, or its horizon is counted in
        samples: the learning rate collapses in the first epochs, goes up and down, or never comes down. Or it is never stepped, or the program
        sets a rate itself that nothing reads (`optimizer.lr`), or lowers it in every step. Or it is stepped before the optimizer, so that
        every rate comes too early. Or it waits for a metric to stop falling and is given one that is to rise. Or it is
        shorter than the loop: OneCycleLR raises after its last step.
    Why it matters
        Most of the training happens at a rate that nobody chose.
    How it is detected
        The rate at each of the scheduler's steps over the whole run, with the updates and the epochs that were made meanwhile. Stepped
        for every update, more than half of the steps have less than a thousandth of the first rate; or nearly all of the schedule is over
        in the first few epochs, and its first steps are a sound schedule for just the epochs there are. Or the horizon is the number of
        epochs and it is stepped for every batch, or the number of batches and it is stepped once an epoch, or longer than the run by the
        batch size. A function that gives the rates is asked for the numbers that it knows. The metrics that ReduceLROnPlateau was given:
        they go the other way all along while the training loss does not rise, and are shares of a whole number (right answers), or are not
        (a loss). Where it raises, the number it was given, followed back to where it was computed, against the turns of the loops
        around its step.
    How to fix it
        Step an epoch's schedule once an epoch; count a horizon in the steps that are made.
    When it stays silent
        Schedules whose step hangs on a number that was not reached (a note). Warm-ups (also those that are stepped first, so as not to
        begin at zero), cycles, warm restarts, decay for each batch that lasts for the run, runs that were stopped early, programs that catch
        the end of the schedule.
    Cost
        A number for each step of a scheduler.
    """
    if (found := rate_set_in_vain(audit) or rate_gone(audit)) is not None or not audit.final:
        return found
    for story in audit.schedules.known:
        if not story.steps:
            found = _never_stepped(audit, story)
        elif story.steps >= ENOUGH and _is_stepped_for_updates(story):
            found = (
                _gone(audit, story)
                or _for_epochs(audit, story)
                or _swinging(audit, story)
                or _for_parts_of_updates(audit, story)
                or _long(audit, story)
            )
        else:
            found = _once_an_epoch(audit, story)
        found = found or _ahead(audit, story) or _the_other_way(audit, story)
        if found is not None:
            return found
    return None


def _is_stepped_for_updates(story: Schedule) -> bool:
    return story.steps >= 0.9 * story.accompanied


def _falls(story: Schedule) -> bool:
    """It begins at its highest rate."""
    return story.first == story.highest > 0


def _gone(audit: Audit, story: Schedule) -> Finding | None:
    """Most steps are made at next to nothing."""
    if not _falls(story) or story.gone <= 0.5 * story.steps:
        return None
    return _tell(
        audit,
        story,
        verdict=f"the learning rate is gone after {story.steps - story.gone} of {story.steps} steps: the scheduler is stepped for every batch",
        what=f"the rate fell from {story.first:g} to {story.last:g}",
        why=f"{story.kind} counts its own steps; called after every update, its epochs are batches.",
        patch=behind_the_batches(story),
    )


def _for_epochs(audit: Audit, story: Schedule) -> Finding | None:
    """The rates of the first steps are a schedule for the epochs of the run.

    For its batches they are none: the schedule is over with them, or goes on to next to nothing.
    """
    epochs = _epochs(story)
    if epochs is None or not _falls(story) or story.rises or story.kind == "ReduceLROnPlateau":
        return None
    first = story.first
    left = story.mean / first
    meant = sum(story.rates[:epochs]) / (epochs * first)
    at_end = story.rates[epochs - 1]
    if left > LITTLE or meant < 3 * left or story.last > LOW * first or at_end > MOVING * first:
        return None
    if story.last > UNPLANNED * first and story.changed > epochs:
        return None
    over = next((number for number, rate in enumerate(story.rates) if rate <= LOW * first), story.steps)
    return _tell(
        audit,
        story,
        verdict=f"after {over} of {story.steps} steps the learning rate is {LOW:.0%} of its first: the scheduler is stepped for every batch",
        what=f"the rate fell from {first:g} to {story.last:g}; stepped once in each of the {epochs} epochs it would have ended at {at_end:g}",
        why=f"{story.kind} counts its own steps; called after every update, its epochs are batches.",
        patch=behind_the_batches(story),
    )


def _swinging(audit: Audit, story: Schedule) -> Finding | None:
    """A half wave that is as long as the run has epochs, gone through again and again."""
    epochs = _epochs(story)
    if epochs is None or not story.swings or story.planned != epochs:
        return None
    if story.steps // epochs == epochs:
        # A wave for each epoch, maybe.
        return None
    return _tell(
        audit,
        story,
        verdict=f"the learning rate goes down or up {_runs(story)} times: {story.kind} is made for {epochs} steps and stepped {story.steps} times",
        what=f"it is as long as the run has epochs, {epochs}, and is stepped for every batch",
        why="Past its end, T_max, the cosine climbs back to where it began.",
        patch=behind_the_batches(story),
    )


def _for_parts_of_updates(audit: Audit, story: Schedule) -> Finding | None:
    """As long as there are updates, and stepped for every backward of those that are added up for one."""
    planned, updates = story.planned, story.updates
    if not planned or updates < ENOUGH or story.steps < 1.8 * updates or abs(planned - updates) > 0.05 * updates:
        return None
    return _tell(
        audit,
        story,
        verdict=f"{story.kind} is made for the {planned} updates of the run, and is stepped {story.steps} times: "
        + ("the rate goes down and up again" if story.swings else "it is over long before the run is"),
        what=f"{story.steps / updates:.3g} steps of the scheduler for each of the optimizer's",
        why="Gradients of several batches are added up for an update; the scheduler is stepped for every batch.",
        fix="Call the scheduler's step where the optimizer's is called.",
        patch=None,
    )


def _runs(story: Schedule) -> int:
    """How often the rate goes one way."""
    ways = [after > before for before, after in pairwise(story.rates) if after != before]
    return 1 + sum(one != other for one, other in pairwise(ways))


def _epochs(story: Schedule) -> int | None:
    """The epochs of a run that has several, with some steps in each."""
    epochs = story.epochs
    if epochs is None or not FEWEST_EPOCHS <= epochs <= len(story.rates) or story.steps < FEWEST_BATCHES * epochs:
        return None
    return epochs


def _long(audit: Audit, story: Schedule) -> Finding | None:
    """A horizon that is longer than the run by just the batch size."""
    made = story.steps
    known = {story.planned} if story.planned is not None else story.numbers
    total = next((each for each in sorted(known, reverse=True) if _is_in_samples(audit, each, made)), None)
    # What the function of the rates knows may be the horizon of something else: it had to come down.
    if total is None or (story.planned is None and story.last < HARDLY * story.highest):
        return None
    return _tell(
        audit,
        story,
        verdict=f"the schedule is {total} steps long and the run only {made}: it counts samples, not batches",
        what=f"the rate went from {story.first:g} to {story.last:g} and the schedule had hardly begun",
        why="The horizon is longer than the run by just the batch size.",
        fix="Count in batches: len(loader), not len(dataset).",
        patch=counted_in_batches(story),
        is_built_wrong=True,
        severity=Severity.WARNING if story.planned is not None else Severity.INFO,
    )


def _is_in_samples(audit: Audit, total: int, made: int) -> bool:
    return any(size > 2 and abs(total / made - size) < 0.1 * size for size in audit.loaders.batch_sizes)


def _never_stepped(audit: Audit, story: Schedule) -> Finding | None:
    """It is built, and the rate stays what it was for all of the run."""
    entry = next((each for each in audit.built if each.ref is story.steered), None)
    others = [each for each in audit.schedules.known if each.steered is story.steered and each.steps]
    if entry is None or not story.is_plain or others or entry.steps < FEWEST_UPDATES or len(set(entry.rates)) != 1:
        return None
    unmade = uncalled_in_program("step", files_of(audit))
    is_sure = bool(unmade) or not _may_come(audit, story)
    return _tell(
        audit,
        story,
        verdict=f"{story.kind} is never stepped: the learning rate stays {story.first:g}",
        what=f"{entry.steps} updates were made at one rate",
        why=f"A scheduler changes the rate when its step is called, and at no other time.{UNMADE if unmade else ''}",
        fix="Call its step, once an epoch or after each update, as it was built for; or take it away.",
        patch=called(unmade[0]) if len(unmade) == 1 else None,
        is_built_wrong=True,
        named=unmade[0] if len(unmade) == 1 else None,
        severity=Severity.WARNING if is_sure else Severity.INFO,
    )


def _may_come(audit: Audit, story: Schedule) -> bool:
    """Whether its step is written somewhere, and only did not come in this run: behind a condition, in a run that is short."""
    made = target_of(story.built[0]) if story.built else None
    if made is None:
        return True
    trees = (tree_of(filename) for filename in files_of(audit))
    nodes = (node for tree in trees if tree is not None for node in ast.walk(tree))
    steps = [each.func for each in nodes if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)]
    return any(each.attr == "step" and last_name(each.value) == made[0].rpartition(".")[2] for each in steps)


def _once_an_epoch(audit: Audit, story: Schedule) -> Finding | None:
    """A horizon that is the number of updates, and a step for many of these only."""
    made, updates = story.steps, story.updates
    if made < FEWEST_EPOCHS or updates < FEWEST_BATCHES * made:
        return None
    # Counted in whole batches, or with one that is short left out or put in.
    known = {story.planned} if story.planned is not None else story.numbers
    planned = next((each for each in (updates, updates - made, updates + made) if each in known), None)
    if planned is None:
        return None
    return _tell(
        audit,
        story,
        verdict=f"the schedule is {planned} steps long and was stepped {made} times: it counts batches and is stepped once an epoch",
        what=f"the rate went from {story.first:g} to {story.last:g} and the schedule had hardly begun",
        why=f"The run made {updates} updates, which is what {story.kind} was built for, and {made} steps of the scheduler.",
        fix="Call the scheduler's step after every update, in the loop over batches; or build it for the number of epochs.",
        patch=behind_each_update(audit, story, planned),
    )


def _the_other_way(audit: Audit, story: Schedule) -> Finding | None:
    """The rate is cut because a metric gets better."""
    mode = goes_the_other_way(audit, story)
    if not mode:
        return None
    first, last = story.metrics[0], story.metrics[-1]
    return _tell(
        audit,
        story,
        verdict=f'{story.kind} with mode="{story.mode}" takes better for worse: it cut the rate from {story.first:g} to {story.last:g} while '
        f"the metric went from {first:.3g} to {last:.3g}",
        what=f"{'a share of right answers that grows' if mode == 'max' else 'a loss that falls'} is no plateau",
        why=f'With mode="{story.mode}" a metric that {"rises" if story.mode == "min" else "falls"} counts as one that does not get better'
        + (", and that is the default." if story.mode == "min" else "."),
        fix=f'Build it with mode="{mode}".',
        patch=other_mode(story, mode),
        is_built_wrong=True,
    )


def _ahead(audit: Audit, story: Schedule) -> Finding | None:
    """In each turn of the loop it is stepped before the optimizer is, and was from the first turn on."""
    if not story.is_ahead or not _falls(story) or story.steps < FEWEST_EPOCHS or story.kind == "ReduceLROnPlateau":
        return None
    ways = {each.stack for each in audit.loop.of(Kind.STEP) if each.detail["entry"].ref is story.steered}
    behind = update_behind(story, next(iter(ways))) if len(ways) == 1 else None
    if behind is None:
        return None
    is_for_updates = _is_stepped_for_updates(story)
    return _tell(
        audit,
        story,
        verdict=f"the scheduler is stepped before the optimizer: every rate comes one {'step' if is_for_updates else 'epoch'} early",
        what="its first step was made before any update",
        why="A scheduler sets the rate of what comes after its step; the first one is set when it is built.",
        fix="Call the scheduler's step after the optimizer's.",
        patch=put_behind(story, behind),
        severity=Severity.INFO if is_for_updates else Severity.WARNING,
    )


def _is_stepped_by_trainer(story: Schedule) -> bool:
    """The program's own line calls a library's loop, not the scheduler."""
    node = story.stepped[0].node() if story.stepped else None
    return isinstance(node, ast.Call) and not (isinstance(node.func, ast.Attribute) and "step" in node.func.attr)


def _tell(
    audit: Audit,
    story: Schedule,
    *,
    verdict: str,
    what: str,
    why: str,
    patch: str | None,
    fix: str = ONCE,
    is_built_wrong: bool = False,
    named: Spot | None = None,
    severity: Severity = Severity.WARNING,
) -> Finding | None:
    places = [spot_at(stack[0] if stack else None) for stack in (story.stepped, story.built)]
    by_trainer = _is_stepped_by_trainer(story)
    spot, other = reversed(places) if is_built_wrong or by_trainer else places
    if by_trainer and not is_built_wrong:
        fix = 'A trainer steps it: tell it when (Lightning: "interval": "step" beside the scheduler), or count what the trainer counts.'
    return tell_silent(
        audit,
        "optimizer/schedule",
        spot=named or spot,
        symptom=other or spot,
        step=story.gone_since or audit.step,
        op=story.kind,
        phase="optimizer",
        severity=severity,
        confidence=Confidence.LIKELY,
        verdict=verdict,
        what=what,
        why=why,
        fix=fix,
        patch=patch,
    )
