"""What happens when a sample is read: it changes, or its randomness repeats.

These rules ask for a few samples again, in a child process, with an eye on every line.
"""

from __future__ import annotations

from whence.finding import Confidence, Finding, Hop, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.memory import Holding
from whence.ledgers.orders import same_contents
from whence.rules.data.edits import changed_on_a_copy, seeded_once
from whence.rules.distributed.sampler_epoch import ENOUGH_EPOCHS, made_at, way_to_tell, why_it_stays
from whence.rules.dtype.wrapped import OTHER_END, tell_wrapped
from whence.rules.memory.filling import filled_at
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import shape_text, tell_silent
from whence.source.seeds import seeding_before
from whence.source.spots import Spot
from whence.tape.tape import Value

PRODUCTS = (
    "matmul",
    "__matmul__",
    "__rmatmul__",
    "mm",
    "bmm",
    "linear",
    "addmm",
    "einsum",
    "tensordot",
    "conv1d",
    "conv2d",
)


@audit_rule("data/mutated-sample", Rank.CAUSE)
def mutated_sample(audit: Audit) -> Finding | None:
    """A sample changes each time it is read.

    What happened
        Reading a sample changes what the dataset has stored, in place: it is normalised again, masked again, shifted again with every
        epoch.
    Why it matters
        The data of the tenth epoch are not those of the first, and what is measured on them neither.
    How it is detected
        One sample is read twice with the same random numbers, in a child process, and again after others: it differs, and so does
        what is stored. In a loop of its own: batches that a line changes, a model is given, and the next epoch finds as that line had left them;
        a buffer that is filled on and on with one array, whose numbers change.
    How to fix it
        Work on a copy: .copy(), .clone(), or arithmetic that makes a new array.
    When it stays silent
        Random augmentation, caches that are filled, generators that move on.
    Cost
        A child process and a few samples, once in a run.
    """
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        if habits is None or not habits.mutated or habits.mutates is None:
            continue
        return tell_silent(
            audit,
            "data/mutated-sample",
            spot=habits.mutates,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            verdict=f"reading a sample changes it: {habits.mutated} is written in place",
            what=f"sample {habits.indices[0]} is another one, with the same random numbers, after it was read before",
            why="What the dataset has stored is changed, not a copy of it: each epoch begins where the last one left the data.",
            fix="Change a copy: .copy() of an array, .clone() of a tensor, list(...) of a list, or an expression that makes a new one.",
            patch=changed_on_a_copy(habits.mutates),
            counterfactual="the same sample was fetched again, with the same random numbers, in a child process",
        )
    return _changed_by_hand(audit) or _overwritten(audit)


def _overwritten(audit: Audit) -> Finding | None:
    """A buffer of observations that are all one array, which a simulator writes anew in each turn."""
    for each in audit.memory.repeats.overwritten:
        if not _is_stacked(each.shape, audit):
            continue
        return tell_silent(
            audit,
            "data/mutated-sample",
            spot=filled_at(Holding([each.alias], each.kind, graph=False), audit),
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{each.alias.name} has one and the same array {each.length} times, and it is overwritten again and again",
            what=f"the array {shape_text(each.shape)} is in each of its elements, and has other numbers than some steps ago",
            why="An array is stored, not what stands in it: when it is written anew, all that was stored before is what it has then.",
            fix="Store a copy: .copy() of an array, .clone() of a tensor, where it is put in or where it is given out.",
        )
    return None


def _is_stacked(shape: tuple[int, ...], audit: Audit) -> bool:
    """Whether steps work on batches of such arrays."""
    return any(
        each.shape[1:] == shape and each.shape[0] > 1 and not each.requires_grad
        for call in audit.tape.calls
        for each in call.operands
        if len(each.shape) > len(shape)
    )


def _changed_by_hand(audit: Audit) -> Finding | None:
    """Batches that a loop cuts from its data: what it writes into them, it writes into the data."""
    found = audit.changes.left_behind()
    if found is None:
        return None
    site, count = found
    statement = site.statement()
    return tell_silent(
        audit,
        "data/mutated-sample",
        spot=Spot.of_node(site.filename, statement)
        if statement is not None
        else Spot.of_site(site),
        step=audit.step,
        phase="data",
        severity=Severity.WARNING,
        verdict="a batch is changed in place, and the data that it was cut from with it",
        what=f"{count} batches were found in the next epoch as this line had left them",
        why="A slice, a split or from_numpy shares the memory of what it was made from: the next epoch begins where this one ends.",
        fix="Change a copy: .clone() of the batch first, or an expression that makes a new one (torch.where, masked_fill).",
        counterfactual=f"what {count} batches had been when they came a second time is what this line had written, to the last bit",
    )


@audit_rule("data/repeated-randomness", Rank.CALL)
def repeated_randomness(audit: Audit) -> Finding | None:
    """Random augmentation repeats across workers or epochs.

    What happened
        A generator that the dataset keeps is copied into every worker, so that all draw the same numbers, and again at each epoch;
        worker_init_fn gives all workers the same seed; a seed is set anew for every sample, or every epoch; or the dataset draws by the
        number of an epoch that it is never told.
    Why it matters
        The augmentation has a fraction of the variety that it seems to have.
    How it is detected
        Samples are read again in a child process: which generator moves on, which seeds are set, whether one worker begins as the
        other. Across epochs, samples that should
        differ are compared with what they were in the epoch before. In a loop of its own: lines that draw the same numbers step
        after step, with a seed that is set on the way to them.
    How to fix it
        Draw from torch's or numpy's own stream, which torch seeds for each worker, or seed the generator in worker_init_fn.
    When it stays silent
        Loaders that are only evaluated, a worker_init_fn that tells workers apart, datasets without randomness. In a loop of its own: an evaluation, the
        closure of an optimizer, a projection that is made anew from its seed.
    Cost
        A child process and a few samples, once in a run.
    """
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        if habits is None:
            continue
        info = entry.info
        chain: tuple[Hop, ...] = ()
        if habits.generator and info.workers > 1 and info.worker_init is None:
            told = (
                f"{info.workers} workers draw the same random numbers: each has a copy of {habits.generator}",
                "A worker is a copy of the program as it was when the epoch began, and the generator is copied with it.",
                "Draw from torch's stream (torch.rand), or give each worker its own seed in worker_init_fn.",
            )
            spot = habits.made or habits.draws
            chain = (
                (habits.draws.hop("drawn from it"),)
                if habits.made is not None and habits.draws is not None
                else ()
            )
        elif habits.workers_seed is not None:
            told = (
                f"{info.workers} workers draw the same random numbers: worker_init_fn gives them all the same seed",
                "torch gives each worker a seed of its own, another one in each epoch; this puts one and the same in its place.",
                "Make the seed from torch.initial_seed() % 2**32, which is another in each worker and epoch, or leave the function out.",
            )
            spot = habits.workers_seed
        elif habits.seeds is not None:
            told = (
                f"the seed {habits.seed} is set for every sample: all get the same random numbers",
                "A generator that is seeded alike begins alike: what looks random is the same for each sample and in each epoch.",
                "Seed once, before training, and draw from one generator that moves on.",
            )
            spot = habits.seeds
        elif habits.is_random and same_contents(entry):
            told = (
                "the random numbers of one epoch are those of the one before",
                "The stream that samples draw from is set back to the same state at the beginning of each epoch.",
                "Seed once, before the first epoch.",
            )
            spot = habits.draws_anew or habits.draws
        elif entry.contents is not None and same_contents(entry) >= (
            2 if audit.final else ENOUGH_EPOCHS
        ):
            told = (
                "the samples of one epoch are those of the one before: the dataset is never told the epoch",
                why_it_stays(entry.contents),
                way_to_tell(entry.contents),
            )
            spot = made_at(info.stack, entry.contents) or info.built
        else:
            continue
        return tell_silent(
            audit,
            "data/repeated-randomness",
            spot=spot,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict=told[0],
            what="the samples of this loader are made with them",
            why=told[1],
            fix=told[2],
            chain=chain,
        )
    return _drawn_again(audit)


def _drawn_again(audit: Audit) -> Finding | None:
    """Numbers that the loop itself draws in each step, and which are those of the step before."""
    for draw in audit.draws.repeated():
        seeding = seeding_before(draw.stack)
        if seeding is None or _is_projection(draw.value, audit):
            continue
        return tell_silent(
            audit,
            "data/repeated-randomness",
            spot=seeding,
            symptom=Spot.of_site(draw.stack[0]),
            step=draw.step,
            phase="data",
            severity=Severity.WARNING,
            verdict="a seed is set in every step: each draws the same random numbers",
            what=f"the same numbers in each of {draw.times} steps",
            why="A generator that is seeded alike begins alike: what looks random is the same in every step.",
            fix="Seed once, before training, and draw from one generator that moves on.",
            patch=seeded_once(seeding),
            counterfactual=f"what this line drew in {draw.times} steps is the same to the last bit",
        )
    return None


def _is_projection(value: Value, audit: Audit) -> bool:
    """Weights that are never learnt, made anew from their seed whenever they are needed, are to be the same."""
    return any(call.name in PRODUCTS and value in call.operands for call in audit.tape.calls)


@audit_rule("dtype/uint8-wrap", Rank.CALL)
def wrapped_in_a_dataset(audit: Audit) -> Finding | None:
    """Unsigned arithmetic wrapped around, in numpy, where a sample is made."""
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        if habits is None or habits.wraps is None:
            continue
        return tell_wrapped(
            audit, habits.wraps, entry.info.built, f"in sample {habits.indices[0]}: {OTHER_END}"
        )
    return None
