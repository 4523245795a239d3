"""A resumed run, and the parts of its checkpoint that it does not load."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch.amp import GradScaler
from torch.optim import Optimizer

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.facts import chosen_rate, plan_in
from whence.ledgers.loop import Event, Kind, OptimizerEntry
from whence.ledgers.schedules import Schedule
from whence.rules.checkpoint.edits import Unloaded, also_loaded
from whence.rules.checkpoint.going_on import continues_from
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.blocks import Stack, target_of
from whence.source.files import program_files
from whence.source.text import parent_of, tree_of

ID = "checkpoint/incomplete-resume"
ENOUGH = 3
"""Updates since the load, so that training has continued."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A part of a checkpoint that is not used."""

    key: str
    owner: str
    label: str
    what: str
    name: str = ""
    """The variable that the part belongs to."""
    made: ast.stmt | None = None
    symptom: Stack = ()


@audit_rule(ID, Rank.CAUSE)
def incomplete_resume(audit: Audit) -> Finding | None:
    """A resumed run lost part of its state.

    What happened
        A checkpoint has the model's weights, the optimizer's state and the epoch. The weights were
        loaded, but not the optimizer's state, or that of its scheduler or GradScaler. Or loading
        raises: the optimizer was built with other parameter groups than the saved one.
    Why it matters
        Adam starts with empty moments: the first steps after the resume are large and badly
        estimated, and the loss jumps. A schedule starts at its first learning rate, a GradScaler at
        its first scale.
    How it is detected
        A file that was read contains an optimizer's state and an epoch or step, a model loaded its
        weights, and a stateful optimizer of these weights continues without having loaded anything;
        or the same schedule as in the file starts at 0, or a scaler at another scale, although the
        optimizer loaded its state. Every unused part of the file is listed, also a count that the
        program never reads. Where load_state_dict raises, the groups of the state are compared with
        the optimizer's.
    How to fix it
        Call optimizer.load_state_dict(checkpoint["optimizer"]), and the same for the scheduler and
        the scaler; continue with the epoch after the saved one.
    When it stays silent
        For files with weights only, and fine-tuning from them, also from a whole checkpoint at
        another learning rate, unless the saved epoch or step bounds the loop; for models that are
        loaded and not trained, optimizers without state, schedules with other settings than the
        saved one, and programs that catch the error and start over.
    Cost
        A check of the result of torch.load.
    """
    events = list(audit.loop.events)
    for number, read in enumerate(events):
        if read.kind is not Kind.READ:
            continue
        later = events[number + 1 :]
        restored = [each for each in later if each.kind is Kind.RESTORE and each.site is not None]
        own = next((each for each in restored if issubclass(each.detail["by"], Optimizer)), None)
        if own is not None and (found := _replaced_after_restore(audit, own)) is not None:
            return found
        load = own or _weights_loaded(read, later)
        if load is None:
            continue
        lost = [
            *(_optimizers(audit, read, load) if own is None else ()),
            *_schedules(audit, read),
            *_scalers(read, later, restored),
        ]
        if own is None and not any(each.owner == "optimizer" for each in lost):
            continue
        if lost:
            return _report(audit, read, load, [*lost, *_counts(read, load, lost)])
    return None


def _replaced_after_restore(audit: Audit, own: Event) -> Finding | None:
    """Report a state loaded into an optimizer that another one over the same weights replaces."""
    number, given = next(
        ((n, each) for n, each in enumerate(audit.built) if each.ref is own.subject), (0, None)
    )
    if given is None or given.steps > own.detail["made"].get(given, 0):
        return None
    after = [each for each in audit.built[number + 1 :] if each not in own.detail["made"]]
    other = next(
        (
            each
            for each in after
            if each.weights == given.weights
            and each.kind == given.kind
            and each.stateful
            and each.stack
        ),
        None,
    )
    if other is None or other.steps < ENOUGH:
        return None
    ways = zip(reversed(given.stack), reversed(other.stack), strict=False)
    return silent_finding(
        audit,
        ID,
        # One function may build both.
        spot=spot_at(next((there for here, there in ways if here != there), other.stack[0])),
        symptom=spot_at(own.site),
        step=own.step,
        op=other.kind,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="the run continues without the optimizer's state: another optimizer is built "
        "after loading it",
        what=f"{other.steps} steps since, with moments that started at zero",
        why="A state belongs to the optimizer that it was loaded into. An optimizer that is "
        "built later starts without one.",
        fix="Load the state into the optimizer that trains, after it is built, and do not build "
        "it again.",
    )


def _report(audit: Audit, read: Event, load: Event, lost: Sequence[Lost]) -> Finding | None:
    first = lost[0]
    states = [each for each in lost if each.owner]
    keys = _listed([repr(each.key) for each in lost])
    unused = f"{keys} in the checkpoint {'is' if len(lost) == 1 else 'are'} not used"
    counts = [each for each in lost if not each.owner]
    return silent_finding(
        audit,
        ID,
        spot=spot_at(load.site),
        symptom=spot_at(first.symptom[0]) if first.symptom else spot_at(read.site),
        step=load.step,
        op="load_state_dict",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"the run resumes without {_listed([each.label for each in lost])}: {unused}",
        what="; ".join(each.what for each in lost if each.what),
        why="Optimizer moments, the position in the schedule and the loss scale are part of the "
        "run's state, like the weights.",
        fix=f"Load {'it' if len(states) == 1 else 'them'} as well: "
        + ", ".join(f"{each.owner}.load_state_dict(checkpoint[{each.key!r}])" for each in states)
        + "".join(f"; and continue from checkpoint[{each.key!r}]" for each in counts)
        + ".",
        patch=also_loaded(
            read.stack,
            load.stack,
            [Unloaded(each.key, each.name, each.made) for each in states if each.name],
        ),
    )


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _weights_loaded(read: Event, later: list[Event]) -> Event | None:
    """The load of all weights from the checkpoint of a run; a partial load is fine-tuning."""
    load = next((each for each in later if each.kind is Kind.LOAD), None)
    if load is None or load.site is None or load.detail["missing"] or load.detail["unexpected"]:
        return None
    return load if read.detail["optimizer"] and read.detail["progress"] else None


def _optimizers(audit: Audit, read: Event, load: Event) -> Iterator[Lost]:
    before = load.detail["made"]
    # Other optimizers train something else with the loaded model: a student with a teacher.
    since = {
        each: made
        for each in load.detail["owners"]
        if (made := each.steps - before.get(each, 0)) > 0
    }
    stepping = [each for each in since if each.stateful]
    if sum(since.values()) < ENOUGH or not stepping:
        return
    steps = [
        each.stack
        for each in audit.loop.events
        if each.kind is Kind.STEP and each.detail["entry"] in stepping
    ]
    has_rate = any(_has_rate(each, read.detail["rate"]) for each in stepping)
    if not has_rate and not continues_from(read.detail["progress"], read.stack, steps):
        # Another learning rate: a new training that only starts from these weights.
        return
    sites = {each.stack[0] for each in stepping if each.stack}
    name, made = (target_of(next(iter(sites))) if len(sites) == 1 else None) or ("", None)
    what = f"{sum(since.values())} steps since, with moments that started at zero"
    yield Lost(read.detail["optimizer"], "optimizer", "its optimizer's state", what, name, made)


def _has_rate(entry: OptimizerEntry, rate: float | None) -> bool:
    """Whether an optimizer had this learning rate; for a deleted one only the range is known."""
    optimizer = entry.optimizer
    if optimizer is not None:
        return chosen_rate(optimizer.param_groups[0]) == rate
    return rate is None or not entry.rates or entry.rates[0] <= rate <= entry.rates[1]


def _schedules(audit: Audit, read: Event) -> Iterator[Lost]:
    """Schedules with the settings of the checkpoint that count from their start."""
    later = [(each, now) for each in audit.schedules.known if (now := _begun(each, read.step))]
    for key, plan in read.detail["schedules"]:
        fresh = next((each for each, now in later if _is_fresh(now, plan)), None)
        if fresh is None or any(now.get("last_epoch", 0) > plan["last_epoch"] for _, now in later):
            continue
        yield _restarted(key, plan["last_epoch"], fresh)


def _begun(story: Schedule, since: int) -> dict[str, int | float]:
    """The counts of a schedule at its first step since a file was read, or now if it made none.

    A program that steps it before any update brings it back to its position.
    """
    if story.steps:
        return story.came_to if story.began >= since and not story.is_ahead else {}
    scheduler = story.ref()
    return plan_in(vars(scheduler)) if scheduler is not None else {}


def _restarted(key: str, had: int | float, fresh: Schedule) -> Lost:
    name, made = (target_of(fresh.built[0]) if fresh.built else None) or ("", None)
    what = f"{fresh.kind} counts from 0 again (it was at {had})"
    return Lost(key, "scheduler", "its schedule", what, name, made, fresh.stepped)


def _is_fresh(now: dict[str, int | float], saved: dict[str, int | float]) -> bool:
    """Whether the settings are the same and the count is at its start or first step."""
    counts = {"last_epoch", "_step_count"}
    own = {name: each for name, each in saved.items() if name not in counts}
    return now.get("last_epoch") in (0, 1) and all(
        now.get(name) == each for name, each in own.items()
    )


def _scalers(read: Event, later: list[Event], restored: list[Event]) -> Iterator[Lost]:
    """Loss scales in the checkpoint where a scaler starts with another one."""
    if any(issubclass(each.detail["by"], GradScaler) for each in restored):
        return
    begun = next((each for each in later if each.kind is Kind.SCALE), None)
    for key, scale in read.detail["scales"]:
        if begun is not None and begun.detail["scale"] not in (scale, 1.0):
            name, made = _owner_at(begun)
            yield Lost(
                key,
                "scaler",
                "its loss scale",
                f"the scale is {begun.detail['scale']:g} (it was {scale:g})",
                name,
                made,
            )


def _owner_at(event: Event) -> tuple[str, ast.stmt | None]:
    """`self.scaler` in self.scaler.scale(loss): it exists under that name by then."""
    node = event.site.node() if event.site is not None else None
    owner = (
        node.func.value
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        else None
    )
    return (ast.unparse(owner), None) if isinstance(owner, ast.Name | ast.Attribute) else ("", None)


def _counts(read: Event, load: Event, lost: Sequence[Lost]) -> Iterator[Lost]:
    """An epoch or step that nothing reads. Alone this is no loss: many programs count from 0."""
    files = {*program_files(), *(each.filename for each in (*read.stack, *load.stack))}
    trees = [tree for filename in files if (tree := tree_of(filename)) is not None]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    used = [key for key in read.detail["progress"] if _is_used(key, nodes)]
    if any(each.owner == "optimizer" for each in lost) and not used:
        for key in read.detail["progress"]:
            yield Lost(key, "", f"its {key}", "")


def _is_used(key: str, nodes: Iterable[ast.AST]) -> bool:
    """Whether the program reads this key: `checkpoint["epoch"]`, `checkpoint.get("epoch", 0)`."""
    return any(
        isinstance(node, ast.Constant) and node.value == key and not _is_written(node)
        for node in nodes
    )


def _is_written(node: ast.Constant) -> bool:
    match parent_of(node):
        case ast.Dict():
            return True
        case ast.Subscript(ctx=ast.Store()):
            return True
    return False
