"""Schedules that are stepped in other units than they count: epochs, batches, samples."""

from __future__ import annotations

import ast
from itertools import pairwise

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.ledgers.schedules import Schedule
from whence.rules.optimizer.by_hand import files_of, rate_decayed_per_step, unread_rate
from whence.rules.optimizer.plateau import correct_mode, other_mode
from whence.rules.optimizer.stepping import (
    after_each_update,
    after_the_batches,
    counted_in_batches,
    put_after,
    update_after,
)
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.blocks import target_of
from whence.source.spots import Spot
from whence.source.text import last_name, tree_of
from whence.source.uncalled import UNMADE, called, uncalled_in_program

ENOUGH = 10
FEWEST_EPOCHS = 3
FEWEST_UPDATES = 50
HARDLY = 0.5
FEWEST_BATCHES = 4
"""Per epoch: with fewer, epochs and batches hardly differ."""
LITTLE = 0.12
"""The mean learning rate of a run relative to the first."""
LOW = 0.05
UNPLANNED = 5e-5
"""Relative to the first learning rate: an intended per-batch decay does not end below this."""
MOVING = 0.95
ONCE = (
    "Call scheduler.step() once per epoch, outside of the loop over batches; or build the "
    "schedule for the number of batches."
)


@audit_rule("optimizer/schedule", Rank.CAUSE)
def schedule(audit: Audit) -> Finding | None:
    """The scheduler is stepped at the wrong place, rate or order.

    What happened
        A schedule for epochs is stepped for every batch, or one for batches once per epoch, or its
        length is counted in samples: the learning rate collapses in the first epochs, oscillates,
        or never decays. Or it is never stepped; or the program sets a learning rate that nothing
        reads (`optimizer.lr`), or lowers it in every step. Or it is stepped before the optimizer,
        so every learning rate comes too early. Or it waits for a metric to stop falling but
        receives one that should rise. Or it is shorter than the loop: OneCycleLR raises after its
        last step.
    Why it matters
        Most of the training happens at an unintended learning rate.
    How it is detected
        The learning rate at each scheduler step over the whole run is compared with the updates and
        epochs. A scheduler that is stepped for every update is reported if more than half of the
        steps have less than a thousandth of the first learning rate; or if nearly all of the
        schedule is over in the first few epochs, and its first steps are a plausible schedule for
        the epochs of the run. Its length is the number of epochs and it is stepped for every batch,
        or the number of batches and it is stepped once per epoch, or longer than the run by the
        batch size; for a learning rate function, the constants that it uses count.
        ReduceLROnPlateau: the metric moves against the mode all along while the training loss does
        not rise, and is a share of a count (accuracy), or is not (a loss). Where a scheduler
        raises, its length is traced back to where it was computed, and compared with the iterations
        of the loops around its step.
    How to fix it
        Step an epoch schedule once per epoch; count the length in actual steps.
    When it stays silent
        For warm-ups (also those that are stepped first, so as not to start at zero), cycles, warm
        restarts, per-batch decay that lasts for the run, runs that were stopped early, and programs
        that catch the end of the schedule. It is a note if the step depends on a condition that was
        not met.
    Cost
        One value for each scheduler step.
    """
    if (found := unread_rate(audit) or rate_decayed_per_step(audit)) is not None or not audit.final:
        return found
    for story in audit.schedules.known:
        if not story.steps:
            found = _never_stepped(audit, story)
        elif story.steps >= ENOUGH and _is_stepped_for_updates(story):
            found = (
                _negligible(audit, story)
                or _for_epochs(audit, story)
                or _oscillating(audit, story)
                or _stepped_per_backward(audit, story)
                or _counted_in_samples(audit, story)
            )
        else:
            found = _stepped_per_epoch(audit, story)
        found = found or _stepped_first(audit, story) or _wrong_mode(audit, story)
        if found is not None:
            return found
    return None


def _is_stepped_for_updates(story: Schedule) -> bool:
    return story.steps >= 0.9 * story.accompanied


def _falls(story: Schedule) -> bool:
    """Whether it starts at its highest learning rate."""
    return story.first == story.highest > 0


def _negligible(audit: Audit, story: Schedule) -> Finding | None:
    """Report that most steps have a negligible learning rate."""
    if not _falls(story) or story.gone <= 0.5 * story.steps:
        return None
    return _report(
        audit,
        story,
        verdict=f"the learning rate is negligible after {story.steps - story.gone} of "
        f"{story.steps} steps: the scheduler is stepped for every batch",
        what=f"the learning rate fell from {story.first:g} to {story.last:g}",
        why=f"{story.kind} counts its own steps. Called after every update, each of its epochs is "
        "a batch.",
        patch=after_the_batches(story),
    )


def _for_epochs(audit: Audit, story: Schedule) -> Finding | None:
    """Report learning rates that are plausible for the epochs of the run, but not for its batches.

    For the batches, the schedule ends after its first steps, or decays to almost nothing.
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
    over = next(
        (number for number, rate in enumerate(story.rates) if rate <= LOW * first), story.steps
    )
    return _report(
        audit,
        story,
        verdict=f"after {over} of {story.steps} steps the learning rate is {LOW:.0%} of its first "
        "value: the scheduler is stepped for every batch",
        what=f"the learning rate fell from {first:g} to {story.last:g}; stepped once in each of "
        f"the {epochs} epochs it would have ended at {at_end:g}",
        why=f"{story.kind} counts its own steps. Called after every update, each of its epochs is "
        "a batch.",
        patch=after_the_batches(story),
    )


def _oscillating(audit: Audit, story: Schedule) -> Finding | None:
    """Report a half cosine as long as the number of epochs that is run through repeatedly."""
    epochs = _epochs(story)
    if epochs is None or not story.swings or story.planned != epochs:
        return None
    if story.steps // epochs == epochs:
        # Possibly one cosine per epoch.
        return None
    return _report(
        audit,
        story,
        verdict=f"the learning rate falls or rises {_runs(story)} times: {story.kind} was built "
        f"for {epochs} steps but is stepped {story.steps} times",
        what=f"its length is the number of epochs, {epochs}, but it is stepped for every batch",
        why="After its end, T_max, the cosine rises back to its start.",
        patch=after_the_batches(story),
    )


def _stepped_per_backward(audit: Audit, story: Schedule) -> Finding | None:
    """Report a schedule for updates that is stepped for every backward of an accumulation."""
    planned, updates = story.planned, story.updates
    if (
        not planned
        or updates < ENOUGH
        or story.steps < 1.8 * updates
        or abs(planned - updates) > 0.05 * updates
    ):
        return None
    return _report(
        audit,
        story,
        verdict=f"{story.kind} was built for the {planned} updates of the run, but is stepped "
        f"{story.steps} times: "
        + (
            "the learning rate falls and rises again"
            if story.swings
            else "it ends long before the run"
        ),
        what=f"{story.steps / updates:.3g} scheduler steps for each optimizer step",
        why="Gradients of several batches are accumulated for one update, but the scheduler is "
        "stepped for every batch.",
        fix="Call scheduler.step() where optimizer.step() is called.",
        patch=None,
    )


def _runs(story: Schedule) -> int:
    """The number of monotonic runs of the learning rate."""
    ways = [after > before for before, after in pairwise(story.rates) if after != before]
    return 1 + sum(one != other for one, other in pairwise(ways))


def _epochs(story: Schedule) -> int | None:
    """The epochs of a run that has several, with some steps in each."""
    epochs = story.epochs
    if (
        epochs is None
        or not FEWEST_EPOCHS <= epochs <= len(story.rates)
        or story.steps < FEWEST_BATCHES * epochs
    ):
        return None
    return epochs


def _counted_in_samples(audit: Audit, story: Schedule) -> Finding | None:
    """Report a schedule that is longer than the run by a factor of the batch size."""
    made = story.steps
    known = {story.planned} if story.planned is not None else story.numbers
    total = next(
        (each for each in sorted(known, reverse=True) if _is_in_samples(audit, each, made)), None
    )
    # A constant in a learning rate function may mean something else, unless the rate never decayed.
    if total is None or (story.planned is None and story.last < HARDLY * story.highest):
        return None
    return _report(
        audit,
        story,
        verdict=f"the schedule is {total} steps long, but the run has only {made}: it counts "
        "samples, not batches",
        what=f"the learning rate went from {story.first:g} to {story.last:g}, when the schedule "
        "had hardly begun",
        why="The schedule is longer than the run by a factor of the batch size.",
        fix="Count batches, len(loader), instead of samples, len(dataset).",
        patch=counted_in_batches(story),
        is_built_wrong=True,
        severity=Severity.WARNING if story.planned is not None else Severity.INFO,
    )


def _is_in_samples(audit: Audit, total: int, made: int) -> bool:
    return any(
        size > 2 and abs(total / made - size) < 0.1 * size for size in audit.loaders.batch_sizes
    )


def _never_stepped(audit: Audit, story: Schedule) -> Finding | None:
    """Report a scheduler that is built but never changes the learning rate."""
    entry = next((each for each in audit.built if each.ref is story.steered), None)
    others = [
        each for each in audit.schedules.known if each.steered is story.steered and each.steps
    ]
    if (
        entry is None
        or not story.is_plain
        or others
        or entry.steps < FEWEST_UPDATES
        or len(set(entry.rates)) != 1
    ):
        return None
    unmade = uncalled_in_program("step", files_of(audit))
    is_sure = bool(unmade) or not _has_unreached_step(audit, story)
    return _report(
        audit,
        story,
        verdict=f"{story.kind} is never stepped: the learning rate stays {story.first:g}",
        what=f"{entry.steps} updates were made with one learning rate",
        why="A scheduler changes the learning rate only when its step() is "
        f"called.{UNMADE if unmade else ''}",
        fix="Call scheduler.step() once per epoch or after each update, as the schedule was "
        "built for; or remove the scheduler.",
        patch=called(unmade[0]) if len(unmade) == 1 else None,
        is_built_wrong=True,
        named=unmade[0] if len(unmade) == 1 else None,
        severity=Severity.WARNING if is_sure else Severity.INFO,
    )


def _has_unreached_step(audit: Audit, story: Schedule) -> bool:
    """Whether the program contains a step that did not run: behind a condition, in a short run."""
    made = target_of(story.built[0]) if story.built else None
    if made is None:
        return True
    trees = (tree_of(filename) for filename in files_of(audit))
    nodes = (node for tree in trees if tree is not None for node in ast.walk(tree))
    steps = [
        each.func
        for each in nodes
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    ]
    return any(
        each.attr == "step" and last_name(each.value) == made[0].rpartition(".")[2]
        for each in steps
    )


def _stepped_per_epoch(audit: Audit, story: Schedule) -> Finding | None:
    """Report a schedule as long as the number of updates that is stepped far less often."""
    made, updates = story.steps, story.updates
    if made < FEWEST_EPOCHS or updates < FEWEST_BATCHES * made:
        return None
    # Counted in whole batches, with or without a short last one.
    known = {story.planned} if story.planned is not None else story.numbers
    planned = next(
        (each for each in (updates, updates - made, updates + made) if each in known), None
    )
    if planned is None:
        return None
    return _report(
        audit,
        story,
        verdict=f"the schedule is {planned} steps long, but was stepped {made} times: it counts "
        "batches and is stepped once per epoch",
        what=f"the learning rate went from {story.first:g} to {story.last:g}, when the schedule "
        "had hardly begun",
        why=f"The run made {updates} updates, for which {story.kind} was built, but only {made} "
        "scheduler steps.",
        fix="Call scheduler.step() after every update, in the loop over batches; or build the "
        "schedule for the number of epochs.",
        patch=after_each_update(audit, story, planned),
    )


def _wrong_mode(audit: Audit, story: Schedule) -> Finding | None:
    """Report a learning rate that is reduced because a metric improves."""
    mode = correct_mode(audit, story)
    if not mode:
        return None
    first, last = story.metrics[0], story.metrics[-1]
    return _report(
        audit,
        story,
        verdict=f'{story.kind} with mode="{story.mode}" cut the learning rate from '
        f"{story.first:g} to {story.last:g} while the metric "
        f"{'rose' if story.mode == 'min' else 'fell'} from {first:.3g} to {last:.3g}",
        what=f"{'a share of correct answers that grows' if mode == 'max' else 'a loss that falls'} "
        "is no plateau",
        why=f'With mode="{story.mode}" a metric that '
        f"{'rises' if story.mode == 'min' else 'falls'} counts as not improving"
        + (", and that is the default." if story.mode == "min" else "."),
        fix=f'Build the scheduler with mode="{mode}".',
        patch=other_mode(story, mode),
        is_built_wrong=True,
    )


def _stepped_first(audit: Audit, story: Schedule) -> Finding | None:
    """Report a scheduler that is stepped before the optimizer in every iteration."""
    if (
        not story.is_ahead
        or not _falls(story)
        or story.steps < FEWEST_EPOCHS
        or story.kind == "ReduceLROnPlateau"
    ):
        return None
    ways = {
        each.stack for each in audit.loop.of(Kind.STEP) if each.detail["entry"].ref is story.steered
    }
    behind = update_after(story, next(iter(ways))) if len(ways) == 1 else None
    if behind is None:
        return None
    is_for_updates = _is_stepped_for_updates(story)
    return _report(
        audit,
        story,
        verdict="the scheduler is stepped before the optimizer: every learning rate comes one "
        f"{'step' if is_for_updates else 'epoch'} early",
        what="its first step came before any update",
        why="A scheduler step sets the learning rate for the updates after it. The first "
        "learning rate is set when the scheduler is built.",
        fix="Call scheduler.step() after optimizer.step().",
        patch=put_after(story, behind),
        severity=Severity.INFO if is_for_updates else Severity.WARNING,
    )


def _is_stepped_by_trainer(story: Schedule) -> bool:
    """Whether the program calls a library's training loop rather than the scheduler."""
    node = story.stepped[0].node() if story.stepped else None
    return isinstance(node, ast.Call) and not (
        isinstance(node.func, ast.Attribute) and "step" in node.func.attr
    )


def _report(
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
        fix = (
            'Configure when the trainer steps the scheduler (Lightning: "interval": "step" next '
            "to the scheduler), or count in the units of the trainer."
        )
    return silent_finding(
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
