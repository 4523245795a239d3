"""The scale of delivered data: raw, scaled twice, or different from training."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

import torch

from whence.data.contract import Contract
from whence.data.departure import Departure, Kind
from whence.data.marks import Mark
from whence.data.summary import Summary
from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.ledgers.inputs import Given
from whence.lineage.ancestry import ancestors
from whence.lineage.datasets.preparing import (
    has_no_code,
    other_preparation,
    prepared_alone,
    where_they_part,
)
from whence.lineage.datasets.samples import trace_into_batch
from whence.lineage.preparation import first_shown
from whence.lineage.properties import Shows
from whence.lineage.trail import Birth, Trail, border, trace
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.data.edits import transform_only_patch
from whence.rules.data.refitted import refitted
from whence.rules.data.sizes import is_faint, reaches_beyond, scale_of
from whence.rules.data.twice import scaled_twice_in_samples
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.spots import Spot
from whence.source.text import statement_at
from whence.tape.batches import Batch, BatchLeaf
from whence.tape.slices import is_random

PATIENCE = 5.0
FACTOR = 5.0
SPREADS = 6.0
STALLED = 0.8
COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


@audit_rule("data/train-eval-skew", Rank.CALL)
def train_eval_skew(audit: Audit) -> Finding | None:
    """Training and evaluation data are preprocessed differently.

    What happened
        In evaluation the model receives values on another scale, or columns in another order, than
        in training.
    Why it matters
        The model is evaluated on inputs unlike any it was trained on, so the metric says nothing
        about training.
    How it is detected
        A contract is learned from the model's first training inputs and checked against the first
        evaluation inputs: a map value = a * x + b, or a logarithm, explains the difference, and it
        is large. Or every column of the evaluation data, which are not the training data, has mean
        0 and standard deviation 1 exactly: a scaler was fitted on them.
    How to fix it
        Share one preprocessing; fit scalers on the training data only, and apply them to both.
    When it stays silent
        Differences other than a change of scale, and small ones: other classes, drift,
        augmentation. Inputs that are not real numbers.
    Cost
        A summary of the first six training passes and the first three evaluations of each model.
    """
    if audit.inputs.fresh is None:
        return None
    trained, evaluated = audit.inputs.fresh
    if (again := refitted(audit, trained, evaluated)) is not None:
        return _report_refitted(audit, again)
    if evaluated.in_training_mode:
        # It may receive other features or samples than those it is trained on.
        return None
    result = Contract.of(trained.summary).judge(evaluated.summary)
    found = next((each for each in result.departures if _is_skew(each, trained, evaluated)), None)
    if found is None:
        return None
    if any(_is_drawn(audit, each) for each in evaluated.inputs):
        return None
    trail = _origin(audit, trained, evaluated, found)
    return silent_finding(
        audit,
        "data/train-eval-skew",
        spot=_prepared(audit) or (trail.spot if trail is not None else None),
        symptom=spot_at(audit.stack[0] if audit.stack else None),
        step=audit.step,
        op=trail.op if trail is not None else None,
        phase="data",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="evaluation and training inputs are prepared differently: "
        f"{_of_training(found.message)}",
        what="the model is evaluated on these inputs",
        why="A model gives reliable results only for inputs like those it was trained on.",
        fix="Prepare training and evaluation data with one function or one fitted scaler.",
        chain=trail.hops if trail is not None else (),
    )


def _of_training(message: str) -> str:
    """Say "training" instead of "contract": this contract was learned from training inputs."""
    return message.replace("the contract's", "training's").replace("* contract", "* training")


def _prepared(audit: Audit) -> Spot | None:
    """Where the preparation that only the evaluation loader has is created."""
    now = audit.loaders.current
    evaluated = now.info.dataset if now is not None else None
    spots = (
        other_preparation(entry.info.dataset, evaluated, audit.frames)
        for entry in audit.batches.trained()
        if evaluated is not None and entry.info.dataset is not None
    )
    if (found := next((each for each in spots if each is not None), None)) is not None:
        return found
    for entry in audit.batches.trained():
        with suppress(NotPossible):
            found = run_in_child(
                partial(where_they_part, entry.info.dataset, evaluated), PATIENCE, need=Need.SAMPLES
            )
        if found is not None:
            return found
    return None


def _report_refitted(audit: Audit, trail: Trail) -> Finding | None:
    return silent_finding(
        audit,
        "data/train-eval-skew",
        spot=trail.spot,
        symptom=spot_at(audit.stack[0] if audit.stack else None),
        step=audit.step,
        op=trail.op,
        phase="data",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="evaluation inputs are standardized on their own: mean 0, standard deviation 1 "
        "exactly",
        what="the model is evaluated on these inputs",
        why="A scaler fitted on the training data does not make other data exactly standard, so "
        "the scaler was probably fitted again.",
        fix="Fit the scaler on the training data only, and call transform, not fit_transform, on "
        "the rest.",
        patch=transform_only_patch(trail.spot),
        chain=trail.hops,
    )


def _is_skew(found: Departure, trained: Given, evaluated: Given) -> bool:
    """Whether the map is too large for drift: a factor, an offset, or a missing logarithm."""
    if found.kind is Kind.ORDER:
        return True
    if found.kind is not Kind.SCALE:
        return False
    if "function" in found.numbers:
        pairs = zip(_spreads(trained, found), _spreads(evaluated, found), strict=False)
        return any(one and other and not 1 / FACTOR < other / one < FACTOR for one, other in pairs)
    factors, moved = (_numbers(found.numbers.get(each)) for each in ("a", "moved"))
    return any(not 1 / FACTOR < abs(each) < FACTOR for each in factors) or any(
        abs(each) > SPREADS for each in moved
    )


def _spreads(given: Given, found: Departure) -> list[float | None]:
    """The standard deviations of a departure's columns."""
    leaf = given.summary.leaves.get(found.leaf)
    facts = (
        leaf.array.numbers.facts()
        if leaf is not None and leaf.array is not None and leaf.array.numbers is not None
        else []
    )
    return [
        facts[each].std for each in found.columns if isinstance(each, int) and each < len(facts)
    ]


def _is_drawn(audit: Audit, ref: weakref.ref[torch.Tensor]) -> bool:
    """Whether an input comes from random numbers of the step; noise may have any scale."""
    tensor = ref()
    value = audit.tape.known_value(tensor) if tensor is not None else None
    return value is not None and any(
        is_random(call) and call.phase != "data" for call in islice(ancestors(value), 40)
    )


def _numbers(thing: Any) -> list[float]:
    """One value per column, or one for all of them."""
    return [] if thing is None else [thing] if isinstance(thing, int | float) else list(thing)


def _origin(audit: Audit, trained: Given, evaluated: Given, found: Departure) -> Trail | None:
    """Where an input outside the training range was created."""
    place = int(found.leaf.strip("[]") or 0) if found.leaf.strip("[]").isdigit() else 0
    tensor = evaluated.inputs[place]() if place < len(evaluated.inputs) else None
    leaf = trained.summary.leaves.get(found.leaf)
    if tensor is None or leaf is None or leaf.array is None or leaf.array.numbers is None:
        return None
    known = [(each.low, each.high) for each in leaf.array.numbers.facts()]
    low = min(each[0] for each in known if each[0] is not None)
    high = max(each[1] for each in known if each[1] is not None)
    room = high - low
    # Search for values outside the training range.
    beyond = partial(reaches_beyond, low - 0.5 * room, high + 0.5 * room)
    value = audit.tape.value_of(tensor)
    if not beyond(tensor):
        return None
    trail = trace(value, Shows(beyond, audit.tape), audit)
    # The values themselves are not wrong; report where they became the input.
    now = audit.loaders.current
    made_before = trail.birth is Birth.SOURCE or (now is not None and has_no_code(now.info.dataset))
    if trail.sample is not None and not made_before:
        return trail
    spot = _apart_from_training(audit, border(trail))
    # Hops before that line are not on the way from it.
    lines = [(each.file, each.line) for each in trail.hops]
    at = (spot.file, spot.line) if spot is not None else None
    hops = trail.hops[lines.index(at) + 1 :] if at in lines else ()
    return replace(trail, spot=prepared_alone(spot) or spot, hops=hops, op=None)


def _apart_from_training(audit: Audit, spot: Spot | None) -> Spot | None:
    """Where a function that builds both loaders is called for the evaluation loader."""
    now = audit.loaders.current
    evaluated = now.info.stack if now is not None else ()
    for entry in audit.batches.trained():
        trained = entry.info.stack
        apart = (
            next((each for each in evaluated if each not in trained), None)
            if trained[:1] == evaluated[:1]
            else None
        )
        if apart is not None and (
            spot is None or (spot.filename, spot.function) != (apart.filename, apart.function)
        ):
            return Spot.of_site(apart)
    return spot


@audit_rule("data/unscaled", Rank.GENERAL)
def unscaled(audit: Audit) -> Finding | None:
    """Inputs are unscaled, or scaled twice.

    What happened
        Images are passed as integers from 0 to 255, or are so small that they were divided by 255
        twice. Or the columns of a table differ in size by a factor of 10,000. Or a column repeats
        an extreme value such as -9999, a placeholder for missing values.
    Why it matters
        Layers are initialized for inputs of about unit size. Far from that, training is slow or
        stalls.
    How it is detected
        From a summary of the first training batches. If samples that are fetched and collated again
        in a child process show the line that made them so, that line is reported. In recorded steps
        and fetched samples: a division by 255 of values that are multiples of 1/255 already.
    How to fix it
        Scale inputs to mean 0 and standard deviation 1, once.
    When it stays silent
        Other ranges, and an extreme value that the program itself compares with. The severity is
        info, unless the loss has hardly changed or a value is a placeholder.
    Cost
        A summary of the first six batches of each loader.
    """
    if (twice := scaled_twice_in_samples(audit)) is not None:
        return twice
    losses = [each for each in audit.losses if each == each]
    if len(losses) < 12:
        return None
    start, end = sum(losses[:4]) / 4, sum(losses[-4:]) / 4
    stalls = end > STALLED * start
    for source in _sources(audit):
        for path, leaf in source.summary.leaves.items():
            found = scale_of(path, leaf.array, source.pixels) if leaf.array is not None else None
            if found is None or (found.mark is not None and _is_handled(audit, found.mark)):
                continue
            if path not in source.sized:
                # Locate it now: at the end of the program the dataset may be gone.
                written = _first_written(audit, found.shows) if found.mark is not None else None
                source.sized[path] = written or source.locate(path, found.shows)
            if not audit.final:
                continue
            matters = stalls or found.mark is not None
            return silent_finding(
                audit,
                "data/unscaled",
                spot=source.sized[path] or source.built,
                symptom=source.built,
                step=audit.step,
                phase="data",
                severity=Severity.WARNING if matters else Severity.INFO,
                confidence=Confidence.LIKELY if matters else Confidence.HINT,
                verdict=found.said,
                what=f"the loss changed from {start:.4g} to {end:.4g}",
                why=found.why,
                fix="Scale once: remove this scaling, or the earlier one."
                if found.shows is is_faint and source.sized[path] is not None
                else found.fix,
            )
    return None


def _is_handled(audit: Audit, mark: Mark) -> bool:
    """Whether the program itself compares with the placeholder: `x == -9999`, `x < -100`."""
    compared = (each for each in audit.tape.calls if each.name.strip("_") in COMPARISONS)
    numbers = (given for each in compared for given in each.args if isinstance(given, int | float))
    return any(map(mark.is_told_apart_by, numbers))


@dataclass(frozen=True, slots=True)
class _Source:
    """Training inputs: a loader's batches, or a model's inputs if there is no loader."""

    summary: Summary
    pixels: dict[str, bool]
    sized: dict[str, Spot | None]
    built: Spot | None
    locate: Callable[[str, Callable[[Any], bool]], Spot | None]


def _sources(audit: Audit) -> list[_Source]:
    loaders = [
        _Source(
            each.summary,
            each.pixels,
            each.sized,
            each.info.built,
            partial(_locate_in_samples, audit, each),
        )
        for each in audit.batches.trained()
    ]
    given = [
        _Source(each.summary, {}, each.sized, None, partial(_on_tape, audit))
        for each in audit.inputs.trained()
    ]
    return loaders or given


def _first_written(audit: Audit, shows: Callable[[Any], bool]) -> Spot | None:
    """The line that wrote such a value; the preparation runs again in a child process."""
    try:
        found = run_in_child(
            lambda: first_shown(audit.frames, shows), PATIENCE, need=Need.PREPARATION
        )
    except NotPossible:
        return None
    statement = statement_at(*found) if found is not None else None
    return (
        Spot.of_node(found[0], statement) if found is not None and statement is not None else None
    )


def _on_tape(audit: Audit, _path: str, shows: Callable[[Any], bool]) -> Spot | None:
    """Where the first such values of the recorded steps were created."""
    for value in (each for call in audit.tape.calls for each in call.operands):
        tensor = value.tensor
        if tensor is not None and not tensor.requires_grad and tensor.dim() > 1 and shows(tensor):
            return border(trace(value, Shows(shows, audit.tape), audit))
    return None


def _locate_in_samples(
    audit: Audit, entry: LoaderEntry, path: str, shows: Callable[[Any], bool]
) -> Spot | None:
    """Where such values entered; samples are fetched and collated again in a child process."""
    indices = next((list(each.marks)[:8] for each in entry.epochs if each.marks), None)
    if indices is None:
        return None
    leaf = BatchLeaf(Batch(entry.info, 0, indices), path)
    trail = trace_into_batch(
        leaf, audit.tape.value_of(torch.empty(0)), Shows(shows, audit.tape), audit
    )
    return (
        trail.spot if trail.birth is not Birth.UNKNOWN and trail.spot != entry.info.built else None
    )
