"""A run that is resumed: which parts of its checkpoint it goes on without."""

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
from whence.rules.checkpoint.edits import Unloaded, loaded_as_well
from whence.rules.checkpoint.going_on import is_gone_on_from
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import spot_at, tell_silent
from whence.source.blocks import Stack, target_of
from whence.source.files import program_files
from whence.source.text import parent_of, tree_of

ID = "checkpoint/incomplete-resume"
ENOUGH = 3
"""Updates since, so that the run has gone on."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A part of a checkpoint that is not used."""

    key: str
    owner: str
    told: str
    what: str
    name: str = ""
    """What the part belongs to, in the program's words."""
    made: ast.stmt | None = None
    symptom: Stack = ()


@audit_rule(ID, Rank.CAUSE)
def incomplete_resume(audit: Audit) -> Finding | None:
    """A resumed run lost part of its state.

    What happened
        A checkpoint has the model's weights, the optimizer's state and the epoch; the weights were loaded, the optimizer's state is not,
        or that of its schedule or of its GradScaler. Or it is refused: the optimizer was built with other groups than the one that was
        saved.
    Why it matters
        Adam begins anew with empty moments: the first steps after the resume are large and badly estimated, and the loss jumps. A
        schedule begins at its first rate, a GradScaler at its first scale.
    How it is detected
        A file that was read has an optimizer's state and an epoch or step in it, a model loaded its weights, and an optimizer of these
        weights, with state, goes on stepping without having loaded anything; or the same schedule as in the file begins at 0, or a scaler at another scale,
        after the optimizer has its state back. Everything of the file that is not used is named, also a count that the program never
        asks for. Where load_state_dict raises, the groups of the state against the optimizer's.
    How to fix it
        optimizer.load_state_dict(checkpoint["optimizer"]), and the scheduler's and the scaler's likewise; go on with the epoch after the
        saved one.
    When it stays silent
        Files of weights alone, fine-tuning from them, also from a whole checkpoint at another rate, unless the saved epoch or step bounds
        the loop; models that are loaded and not trained; optimizers that have no state, schedules with other settings than the saved one;
        programs that catch the refusal and begin anew.
    Cost
        A look at what torch.load gives.
    """
    events = list(audit.loop.events)
    for number, read in enumerate(events):
        if read.kind is not Kind.READ:
            continue
        later = events[number + 1 :]
        restored = [each for each in later if each.kind is Kind.RESTORE and each.site is not None]
        own = next((each for each in restored if issubclass(each.detail["by"], Optimizer)), None)
        if own is not None and (found := _restored_in_vain(audit, own)) is not None:
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
            return _tell(audit, read, load, [*lost, *_counts(read, load, lost)])
    return None


def _restored_in_vain(audit: Audit, own: Event) -> Finding | None:
    """The state is loaded into an optimizer that makes no step with it: another one is built over the same weights."""
    number, given = next(((n, each) for n, each in enumerate(audit.built) if each.ref is own.subject), (0, None))
    if given is None or given.steps > own.detail["made"].get(given, 0):
        return None
    after = [each for each in audit.built[number + 1 :] if each not in own.detail["made"]]
    other = next(
        (
            each
            for each in after
            if each.weights == given.weights and each.kind == given.kind and each.stateful and each.stack
        ),
        None,
    )
    if other is None or other.steps < ENOUGH:
        return None
    ways = zip(reversed(given.stack), reversed(other.stack), strict=False)
    return tell_silent(
        audit,
        ID,
        # Both may come from one function that builds them.
        spot=spot_at(next((there for here, there in ways if here != there), other.stack[0])),
        symptom=spot_at(own.site),
        step=own.step,
        op=other.kind,
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="the optimizer's state is loaded, and then another optimizer is built: the run goes on without it",
        what=f"{other.steps} steps since, with moments that began at zero",
        why="A state belongs to the optimizer that it was loaded into; one that is built later begins with none.",
        fix="Load the state into the optimizer that goes on: after it is built, and without building it again.",
    )


def _tell(audit: Audit, read: Event, load: Event, lost: Sequence[Lost]) -> Finding | None:
    first = lost[0]
    states = [each for each in lost if each.owner]
    keys = _listed([repr(each.key) for each in lost])
    used = f"({keys} in the checkpoint {'is' if len(lost) == 1 else 'are'} not used)"
    counts = [each for each in lost if not each.owner]
    return tell_silent(
        audit,
        ID,
        spot=spot_at(load.site),
        symptom=spot_at(first.symptom[0]) if first.symptom else spot_at(read.site),
        step=load.step,
        op="load_state_dict",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"the run is resumed without {_listed([each.told for each in lost])} {used}",
        what="; ".join(each.what for each in lost if each.what),
        why="What an optimizer, a schedule and a loss scale have come to belongs to the run as the weights do.",
        fix=f"Load {'it' if len(states) == 1 else 'them'} as well: "
        + ", ".join(f"{each.owner}.load_state_dict(checkpoint[{each.key!r}])" for each in states)
        + "".join(f"; and go on from checkpoint[{each.key!r}]" for each in counts)
        + ".",
        patch=loaded_as_well(
            read.stack, load.stack, [Unloaded(each.key, each.name, each.made) for each in states if each.name]
        ),
    )


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _weights_loaded(read: Event, later: list[Event]) -> Event | None:
    """Where a model takes its weights from a checkpoint of a run, and training goes on; part of the weights is fine-tuning."""
    load = next((each for each in later if each.kind is Kind.LOAD), None)
    if load is None or load.site is None or load.detail["missing"] or load.detail["unexpected"]:
        return None
    return load if read.detail["optimizer"] and read.detail["progress"] else None


def _optimizers(audit: Audit, read: Event, load: Event) -> Iterator[Lost]:
    before = load.detail["made"]
    # Others train something else with the help of what was loaded: a student with a teacher.
    since = {each: made for each in load.detail["owners"] if (made := each.steps - before.get(each, 0)) > 0}
    stepping = [each for each in since if each.stateful]
    if sum(since.values()) < ENOUGH or not stepping:
        return
    steps = [each.stack for each in audit.loop.events if each.kind is Kind.STEP and each.detail["entry"] in stepping]
    has_rate = any(_has_rate(each, read.detail["rate"]) for each in stepping)
    if not has_rate and not is_gone_on_from(read.detail["progress"], read.stack, steps):
        # Another rate: a training of its own, which takes its first weights from there.
        return
    sites = {each.stack[0] for each in stepping if each.stack}
    name, made = (target_of(next(iter(sites))) if len(sites) == 1 else None) or ("", None)
    what = f"{sum(since.values())} steps since, with moments that began at zero"
    yield Lost(read.detail["optimizer"], "optimizer", "its optimizer's state", what, name, made)


def _has_rate(entry: OptimizerEntry, rate: float | None) -> bool:
    """Whether an optimizer was given this rate; of one that is gone the lowest and the highest are known."""
    optimizer = entry.optimizer
    if optimizer is not None:
        return chosen_rate(optimizer.param_groups[0]) == rate
    return rate is None or not entry.rates or entry.rates[0] <= rate <= entry.rates[1]


def _schedules(audit: Audit, read: Event) -> Iterator[Lost]:
    """The same schedules as in the checkpoint, which count from their beginning."""
    later = [(each, now) for each in audit.schedules.known if (now := _begun(each, read.step))]
    for key, plan in read.detail["schedules"]:
        anew = next((each for each, now in later if _is_anew(now, plan)), None)
        if anew is None or any(now.get("last_epoch", 0) > plan["last_epoch"] for _, now in later):
            continue
        yield _begun_anew(key, plan["last_epoch"], anew)


def _begun(story: Schedule, since: int) -> dict[str, int | float]:
    """The numbers of a schedule at its first step since a file was read, or now, if it has made none.

    Who makes its first steps before any update brings it to where it was.
    """
    if story.steps:
        return story.came_to if story.began >= since and not story.is_ahead else {}
    scheduler = story.ref()
    return plan_in(vars(scheduler)) if scheduler is not None else {}


def _begun_anew(key: str, had: int | float, anew: Schedule) -> Lost:
    name, made = (target_of(anew.built[0]) if anew.built else None) or ("", None)
    what = f"{anew.kind} counts from 0 again, and had come to {had}"
    return Lost(key, "scheduler", "its schedule", what, name, made, anew.stepped)


def _is_anew(now: dict[str, int | float], saved: dict[str, int | float]) -> bool:
    """The same settings, and the beginning, or the first step."""
    counts = {"last_epoch", "_step_count"}
    own = {name: each for name, each in saved.items() if name not in counts}
    return now.get("last_epoch") in (0, 1) and all(now.get(name) == each for name, each in own.items())


def _scalers(read: Event, later: list[Event], restored: list[Event]) -> Iterator[Lost]:
    """Scales that the checkpoint has, and a scaler that begins at another one."""
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
                f"the scale is {begun.detail['scale']:g}, and was {scale:g}",
                name,
                made,
            )


def _owner_at(event: Event) -> tuple[str, ast.stmt | None]:
    """`self.scaler` of self.scaler.scale(loss): by that name it was made before."""
    node = event.site.node() if event.site is not None else None
    owner = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return (ast.unparse(owner), None) if isinstance(owner, ast.Name | ast.Attribute) else ("", None)


def _counts(read: Event, load: Event, lost: Sequence[Lost]) -> Iterator[Lost]:
    """An epoch or a step that nobody asks for. That alone is no loss: many a program counts anew."""
    files = {*program_files(), *(each.filename for each in (*read.stack, *load.stack))}
    trees = [tree for filename in files if (tree := tree_of(filename)) is not None]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    asked = [key for key in read.detail["progress"] if _is_asked_for(key, nodes)]
    if any(each.owner == "optimizer" for each in lost) and not asked:
        for key in read.detail["progress"]:
            yield Lost(key, "", f"its {key}", "")


def _is_asked_for(key: str, nodes: Iterable[ast.AST]) -> bool:
    """Whether one names this part other than to write it: `checkpoint["epoch"]`, `checkpoint.get("epoch", 0)`."""
    return any(isinstance(node, ast.Constant) and node.value == key and not _is_written(node) for node in nodes)


def _is_written(node: ast.Constant) -> bool:
    match parent_of(node):
        case ast.Dict():
            return True
        case ast.Subscript(ctx=ast.Store()):
            return True
    return False
