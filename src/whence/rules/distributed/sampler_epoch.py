"""Every epoch has the same order.

What happened
    A sampler, or a stream, shuffles by its seed and its epoch, and was never told the epoch: set_epoch was not called, or whatever takes its
    place. Or it seeds itself alike each time, or the numbers that it draws are set back at the start of each epoch.
Why it matters
    Every epoch has the same batches in the same order; the shuffling is done once.
How it is detected
    The first batches of the first epochs are the same, in the same order, while one optimizer goes on. What decides on the order is asked
    again in a child process: it gives another one when it is told another epoch, or when it is asked a second time.
How to fix it
    sampler.set_epoch(epoch) at the start of each epoch; a generator that is seeded once and moves on.
When it stays silent
    Orders that do not depend on any epoch or random number: sequential, sorted, fixed lists of batches. Several models that are trained
    one after the other on the same order. Loaders that are only evaluated.
Cost
    A hash of the indices of the first batches. Once, if two epochs are alike, a child process.
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
from whence.rules.telling import tell_silent
from whence.source.seeds import seeding_before
from whence.source.sites import Site
from whence.source.spots import Spot

PLACES = {"dataset": 0, "sampler": 3, "batch_sampler": 4}
"""Where torch's loader takes them."""
ENOUGH_EPOCHS = 3


@audit_rule("distributed/sampler-epoch")
def sampler_epoch(audit: Audit) -> Finding | None:
    for entry in audit.batches.trained():
        epochs = alike(audit.batches, entry) if entry.standing is not None else []
        # An epoch that is told after the loop over it is told one too late, and that is all.
        if entry.standing is None or len(epochs) < (2 if audit.final else ENOUGH_EPOCHS):
            continue
        told = _told(entry, entry.standing, epochs, audit)
        if told is None:
            continue
        return tell_silent(
            audit,
            "distributed/sampler-epoch",
            spot=told.spot or entry.info.built,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY
            if entry.standing.cause is Cause.SEED
            else Confidence.PROVEN,
            verdict=f"every epoch has the same order: {told.verdict}",
            what=f"{len(epochs)} epochs have the same samples in the same order",
            why=told.why,
            fix=told.fix,
            patch=_patch(entry.standing, epochs, audit),
            counterfactual=told.tried,
        )
    return None


@dataclass(frozen=True, slots=True)
class Told:
    spot: Spot | None
    verdict: str
    why: str
    fix: str
    tried: str


def _told(entry: LoaderEntry, standing: Standing, epochs: list[Epoch], audit: Audit) -> Told | None:
    thing = "the dataset" if standing.part == "dataset" else "the sampler"
    alike_told = (
        epoch_told(epochs[-1].stack, standing.part, audit.frames)
        if standing.cause is Cause.NUMBER
        else None
    )
    if alike_told is not None and not standing.is_out_of_reach:
        return Told(
            alike_told,
            f"{thing} is told the same epoch each time",
            f"{standing.kind} draws by its seed and its epoch, and what this tells it does not change.",
            "Tell it the number of the epoch that is about to begin.",
            "told of another epoch, in a child process, it gives another order",
        )
    if standing.cause in (Cause.NUMBER, Cause.SIGNAL):
        return Told(
            made_at(entry.info.stack, standing),
            f"{thing} is never told the epoch",
            why_it_stays(standing),
            way_to_tell(standing),
            "told of another epoch, in a child process, it gives another order",
        )
    if standing.cause is Cause.SEED:
        return Told(
            standing.spot,
            f"{thing} seeds itself alike each time",
            f"{standing.kind} begins with the same seed whenever it is gone through.",
            "Make the seed from the number of the epoch as well, or keep one generator that moves on.",
            "asked twice in a row, in a child process, it gives one order",
        )
    if standing.cause is Cause.COPY:
        return Told(
            standing.spot,
            "the workers of each epoch begin with the same copy of its generator",
            "A worker is a copy of the program as it was when the epoch began: what it draws from a generator of the dataset's does not come back.",
            "Draw from torch's stream, which is seeded anew for each worker and epoch, or seed the generator by torch.initial_seed() in __iter__.",
            "asked twice in a row, in a child process, it gives two orders",
        )
    is_rebuilt = len(entry.epochs) < len(epochs)
    seeding = seeding_before(entry.info.stack, makers=True) if is_rebuilt else None
    seeding = seeding or seeding_before(epochs[-1].stack, makers=True)
    if seeding is None or "data/repeated-randomness" in audit.told:
        # Whoever sets a stream back without a seed may well want to have the same again.
        return None
    return Told(
        seeding,
        "the random numbers of its shuffling are set back each time",
        "A generator that is seeded alike begins alike: what looks random is the same in each epoch.",
        "Seed once, before the first epoch.",
        "asked twice in a row, in a child process, it gives two orders",
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
        return "Workers that stay on have a copy of the dataset, made before the first epoch: what it is told later does not reach them."
    if standing.cause is Cause.SIGNAL:
        return f"{standing.kind} mixes anew when {standing.told_by} is called, and nobody calls it."
    stays = f"stays {standing.number}" if standing.number is not None else "stays what it is"
    until = (
        "set_epoch is called" if standing.told_by == "set_epoch" else f"{standing.told_by} is set"
    )
    return f"{standing.kind} draws by its seed and its epoch, and the epoch {stays} until {until}."


def way_to_tell(standing: Standing) -> str:
    name = "dataset" if standing.part == "dataset" else "sampler"
    if standing.is_out_of_reach:
        return "Leave persistent_workers out, or keep the epoch where workers see it (multiprocessing.Value)."
    if standing.cause is Cause.SIGNAL:
        return f"Call {name}.{standing.told_by}() after each epoch."
    way = (
        f"Call {name}.set_epoch(epoch)"
        if standing.told_by == "set_epoch"
        else f"Set {name}.{standing.told_by}"
    )
    return f"{way} at the start of each epoch."


def made_at(stack: tuple[Site, ...], standing: Standing) -> Spot | None:
    """Where the part of a loader is made that could be told."""
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
