"""Every epoch has the same order.

What happened
    A sampler, or a stream, shuffles by its seed and its epoch, but never learns the epoch:
    set_epoch, or its equivalent, was not called. Or it uses the same seed each time, or its random
    generator is reset at the start of each epoch.
Why it matters
    Every epoch has the same batches in the same order; the data is shuffled only once.
How it is detected
    The first batches of the first epochs are the same, in the same order, while one optimizer
    continues. The sampler or dataset is run again in a child process: with another epoch, or a
    second time, to see whether the order changes.
How to fix it
    Call sampler.set_epoch(epoch) at the start of each epoch; use a generator that is seeded once.
When it stays silent
    For orders that depend on no epoch or random number: sequential, sorted, fixed lists of batches.
    For several models that are trained one after the other on the same order. For loaders that are
    only evaluated.
Cost
    A hash of the indices of the first batches. One child process, if two epochs are the same.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.batches import Epoch, LoaderEntry
from whence.ledgers.orders import alike
from whence.lineage.constructors import argument_given
from whence.lineage.datasets.epochs import Cause, Standing
from whence.rules.data.edits import epoch_told, told_the_epoch
from whence.rules.optimizer.copying import definition_of
from whence.rules.rule import audit_rule
from whence.rules.telling import silent_finding
from whence.source.seeds import seeding_before
from whence.source.sites import Site
from whence.source.spots import Spot

PLACES = {"dataset": 0, "sampler": 3, "batch_sampler": 4}
"""Their positions among the arguments of DataLoader."""
ENOUGH_EPOCHS = 3


@audit_rule("distributed/sampler-epoch")
def sampler_epoch(audit: Audit) -> Finding | None:
    for entry in audit.batches.trained():
        epochs = alike(audit.batches, entry) if entry.standing is not None else []
        # set_epoch after the loop is only one epoch late.
        if entry.standing is None or len(epochs) < (2 if audit.final else ENOUGH_EPOCHS):
            continue
        text = _text(entry, entry.standing, epochs, audit)
        if text is None:
            continue
        return silent_finding(
            audit,
            "distributed/sampler-epoch",
            spot=text.spot or entry.info.built,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY
            if entry.standing.cause is Cause.SEED
            else Confidence.PROVEN,
            verdict=f"every epoch has the same order: {text.verdict}",
            what=f"{len(epochs)} epochs have the same samples in the same order",
            why=text.why,
            fix=text.fix,
            patch=_patch(entry.standing, epochs, audit),
            counterfactual=text.tried,
        )
    return None


@dataclass(frozen=True, slots=True)
class Text:
    spot: Spot | None
    verdict: str
    why: str
    fix: str
    tried: str


def _text(entry: LoaderEntry, standing: Standing, epochs: list[Epoch], audit: Audit) -> Text | None:
    thing = "the dataset" if standing.part == "dataset" else "the sampler"
    same_epoch = (
        epoch_told(epochs[-1].stack, standing.part, audit.frames)
        if standing.cause is Cause.NUMBER
        else None
    )
    if same_epoch is not None and not standing.is_out_of_reach:
        return Text(
            same_epoch,
            f"{thing} gets the same epoch each time",
            f"{standing.kind} shuffles by its seed and its epoch, and this line always sets the "
            "same epoch.",
            "Pass the number of the epoch that is about to begin.",
            "with another epoch, in a child process, the order differs",
        )
    if standing.cause in (Cause.NUMBER, Cause.SIGNAL):
        return Text(
            made_at(entry.info.stack, standing),
            f"{thing} never learns the epoch",
            why_it_stays(standing),
            way_to_tell(standing),
            "with another epoch, in a child process, the order differs",
        )
    if standing.cause is Cause.SEED:
        return Text(
            standing.spot,
            f"{thing} uses the same seed each time",
            f"{standing.kind} starts with the same seed for every iteration over it.",
            "Include the epoch number in the seed, or keep one generator for all epochs.",
            "two iterations in a row, in a child process, have the same order",
        )
    if standing.cause is Cause.COPY:
        return Text(
            standing.spot,
            "the workers of each epoch start with the same copy of the dataset's generator",
            "A worker gets a copy of the dataset when the epoch begins. The state of its "
            "generator does not return to the main process.",
            "Use PyTorch's global generator, which is seeded for each worker and epoch, or seed "
            "the generator with torch.initial_seed() in __iter__.",
            "two iterations in a row, in a child process, have different orders",
        )
    is_rebuilt = len(entry.epochs) < len(epochs)
    seeding = seeding_before(entry.info.stack, makers=True) if is_rebuilt else None
    seeding = seeding or seeding_before(epochs[-1].stack, makers=True)
    if seeding is None or "data/repeated-randomness" in audit.told:
        # A program that resets a generator without a seed may want the same order.
        return None
    return Text(
        seeding,
        "the random generator is seeded again for each epoch",
        "A generator with the same seed gives the same values, so the shuffled order is the same "
        "in each epoch.",
        "Seed once, before the first epoch.",
        "two iterations in a row, in a child process, have different orders",
    )


def _patch(standing: Standing, epochs: list[Epoch], audit: Audit) -> str | None:
    is_plain = (
        standing.told_by == "set_epoch" and not standing.depth and not standing.is_out_of_reach
    )
    if standing.cause is not Cause.NUMBER or not is_plain or not epochs[-1].stack:
        return None
    return told_the_epoch(epochs[-1].stack[0], standing.part, audit.frames)


def why_it_stays(standing: Standing) -> str:
    if standing.is_out_of_reach:
        return (
            "Persistent workers have a copy of the dataset from before the first epoch. Later "
            "calls do not reach them."
        )
    if standing.cause is Cause.SIGNAL:
        return (
            f"{standing.kind} shuffles again only when {standing.told_by} is called, and nothing "
            "calls it."
        )
    stays = f"stays {standing.number}" if standing.number is not None else "does not change"
    until = (
        "set_epoch is called" if standing.told_by == "set_epoch" else f"{standing.told_by} is set"
    )
    return (
        f"{standing.kind} shuffles by its seed and its epoch, and the epoch {stays} until {until}."
    )


def way_to_tell(standing: Standing) -> str:
    name = "dataset" if standing.part == "dataset" else "sampler"
    if standing.is_out_of_reach:
        return (
            "Drop persistent_workers, or keep the epoch where workers can read it "
            "(multiprocessing.Value)."
        )
    if standing.cause is Cause.SIGNAL:
        return f"Call {name}.{standing.told_by}() after each epoch."
    way = (
        f"Call {name}.set_epoch(epoch)"
        if standing.told_by == "set_epoch"
        else f"Set {name}.{standing.told_by}"
    )
    return f"{way} at the start of each epoch."


def made_at(stack: tuple[Site, ...], standing: Standing) -> Spot | None:
    """Where the part of a loader that needs the epoch is created."""
    node, site = argument_given(stack, PLACES[standing.part], standing.part)
    spot = _maker(node, site)
    for _ in range(standing.depth):
        call = spot.node() if spot is not None else None
        inner = _first_argument(call) if isinstance(call, ast.Call) else None
        spot = _maker(inner, site) or spot
    return spot


def _maker(node: ast.expr | None, site: Site | None) -> Spot | None:
    if node is None or site is None:
        return None
    return (
        Spot.of_node(site.filename, node)
        if isinstance(node, ast.Call)
        else definition_of(node, site)
    )


def _first_argument(call: ast.Call) -> ast.expr | None:
    named = (each.value for each in call.keywords if each.arg in PLACES)
    return next(iter(call.args), None) or next(named, None)
