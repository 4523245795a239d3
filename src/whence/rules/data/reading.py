"""Samples that change when they are read, and randomness that repeats.

These rules fetch a few samples again in a child process and trace every line.
"""

from __future__ import annotations

from whence.finding import Confidence, Finding, Hop, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.memory import Holding
from whence.ledgers.orders import same_contents
from whence.rules.data.edits import copy_patch, seed_once_patch
from whence.rules.distributed.sampler_epoch import ENOUGH_EPOCHS, made_at, way_to_tell, why_it_stays
from whence.rules.dtype.wrapped import OTHER_END, wrapped_finding
from whence.rules.memory.filling import filled_at
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import shape_text, silent_finding
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
        Reading a sample changes the stored data in place: it is normalized, masked or shifted again
        in every epoch.
    Why it matters
        The data of epoch 10 differ from those of epoch 1, and so do all metrics on them.
    How it is detected
        One sample is read twice with the same random numbers in a child process, and again after
        others: it differs, and so do the stored data. In a hand-written loop: a line changes
        batches that a model then receives, and the next epoch finds them as that line left them; or
        a buffer is filled repeatedly with one array whose values change.
    How to fix it
        Work on a copy: .copy(), .clone(), or arithmetic that makes a new array.
    When it stays silent
        Random augmentation, caches that are filled, generators that advance.
    Cost
        A child process and a few samples, once per run.
    """
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        if habits is None or not habits.mutated or habits.mutates is None:
            continue
        return silent_finding(
            audit,
            "data/mutated-sample",
            spot=habits.mutates,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            verdict=f"reading a sample changes it: {habits.mutated} is modified in place",
            what=f"sample {habits.indices[0]} differs when it is read again with the same random "
            "numbers",
            why="The dataset modifies its stored data, not a copy, so each epoch starts from the "
            "data that the previous one left.",
            fix="Modify a copy: .copy() of an array, .clone() of a tensor, list(...) of a list, or "
            "an expression that makes a new object.",
            patch=copy_patch(habits.mutates),
            counterfactual="the same sample was fetched again with the same random numbers in a "
            "child process",
        )
    return _changed_in_loop(audit) or _overwritten(audit)


def _overwritten(audit: Audit) -> Finding | None:
    """A buffer whose observations are all one array, which a simulator overwrites."""
    for each in audit.memory.repeats.overwritten:
        if not _is_stacked(each.shape, audit):
            continue
        return silent_finding(
            audit,
            "data/mutated-sample",
            spot=filled_at(Holding([each.alias], each.kind, graph=False), audit),
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{each.alias.name} holds one array {each.length} times, and it is overwritten "
            "repeatedly",
            what=f"each element is the same array {shape_text(each.shape)}, whose values have "
            "changed since earlier steps",
            why="The buffer stores a reference to the array, not its values. When the array is "
            "overwritten, every stored element changes.",
            fix="Store a copy: .copy() of an array, .clone() of a tensor, where it is stored or "
            "returned.",
        )
    return None


def _is_stacked(shape: tuple[int, ...], audit: Audit) -> bool:
    """Whether steps use batches of such arrays."""
    return any(
        each.shape[1:] == shape and each.shape[0] > 1 and not each.requires_grad
        for call in audit.tape.calls
        for each in call.operands
        if len(each.shape) > len(shape)
    )


def _changed_in_loop(audit: Audit) -> Finding | None:
    """In-place changes of batches that are views of the data."""
    found = audit.changes.left_behind()
    if found is None:
        return None
    site, count = found
    statement = site.statement()
    return silent_finding(
        audit,
        "data/mutated-sample",
        spot=Spot.of_node(site.filename, statement)
        if statement is not None
        else Spot.of_site(site),
        step=audit.step,
        phase="data",
        severity=Severity.WARNING,
        verdict="a batch is modified in place, which also modifies the data it is a view of",
        what=f"the next epoch found {count} batches as this line had left them",
        why="A slice, a split or from_numpy shares memory with its source, so the next epoch "
        "starts from the modified data.",
        fix="Modify a copy: call .clone() on the batch first, or use an expression that makes a "
        "new tensor (torch.where, masked_fill).",
        counterfactual=f"when {count} batches came a second time, they were bit-identical to what "
        "this line had written",
    )


@audit_rule("data/repeated-randomness", Rank.CALL)
def repeated_randomness(audit: Audit) -> Finding | None:
    """Random augmentation repeats across workers or epochs.

    What happened
        The dataset holds a generator that is copied into every worker, so all workers draw the same
        numbers, again in each epoch. Or worker_init_fn gives all workers the same seed, a seed is
        set for every sample or epoch, or the dataset draws by an epoch number that is never set.
    Why it matters
        The augmentation has only a fraction of its apparent variety.
    How it is detected
        Samples are read again in a child process, which shows which generator advances, which seeds
        are set, and whether two workers start alike. Across epochs, samples that should differ are
        compared with the previous epoch. In a hand-written loop: lines that draw the same numbers
        in every step, after a seed that is set on the way.
    How to fix it
        Draw from the global PyTorch or NumPy generator, which PyTorch seeds per worker, or seed the
        generator in worker_init_fn.
    When it stays silent
        Loaders that are only evaluated, a worker_init_fn that seeds workers differently, datasets
        without randomness. In a hand-written loop: an evaluation, the closure of an optimizer, a
        projection that is created again from its seed.
    Cost
        A child process and a few samples, once per run.
    """
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        if habits is None:
            continue
        info = entry.info
        chain: tuple[Hop, ...] = ()
        if habits.generator and info.workers > 1 and info.worker_init is None:
            text = (
                f"{info.workers} workers draw the same random numbers: each has a copy of "
                f"{habits.generator}",
                "Each worker is a copy of the program at the start of the epoch, including the "
                "state of the generator.",
                "Draw from PyTorch's generator (torch.rand), or give each worker its own seed in "
                "worker_init_fn.",
            )
            spot = habits.made or habits.draws
            chain = (
                (habits.draws.hop("the numbers are drawn here"),)
                if habits.made is not None and habits.draws is not None
                else ()
            )
        elif habits.workers_seed is not None:
            text = (
                f"{info.workers} workers draw the same random numbers: worker_init_fn gives all "
                "the same seed",
                "PyTorch gives each worker its own seed, a new one in each epoch. worker_init_fn "
                "replaces it by one seed for all.",
                "Derive the seed from torch.initial_seed() % 2**32, which differs per worker and "
                "epoch, or remove the function.",
            )
            spot = habits.workers_seed
        elif habits.seeds is not None:
            text = (
                f"the seed {habits.seed} is set for every sample: all get the same random numbers",
                "A generator with the same seed yields the same numbers, so the augmentation is "
                "the same for each sample and epoch.",
                "Seed once, before training, and draw from one generator.",
            )
            spot = habits.seeds
        elif habits.is_random and same_contents(entry):
            text = (
                "each epoch draws the same random numbers as the previous one",
                "The random state that samples draw from is reset at the start of each epoch.",
                "Seed once, before the first epoch.",
            )
            spot = habits.draws_anew or habits.draws
        elif entry.contents is not None and same_contents(entry) >= (
            2 if audit.final else ENOUGH_EPOCHS
        ):
            text = (
                "each epoch has the samples of the previous one: the dataset's epoch is never set",
                why_it_stays(entry.contents),
                way_to_tell(entry.contents),
            )
            spot = made_at(info.stack, entry.contents) or info.built
        else:
            continue
        return silent_finding(
            audit,
            "data/repeated-randomness",
            spot=spot,
            symptom=entry.info.built,
            step=audit.step,
            phase="data",
            severity=Severity.WARNING,
            confidence=Confidence.PROVEN,
            verdict=text[0],
            what="the samples of this loader are created with these numbers",
            why=text[1],
            fix=text[2],
            chain=chain,
        )
    return _repeated_draws(audit)


def _repeated_draws(audit: Audit) -> Finding | None:
    """Random numbers that the loop draws in each step, and that never change."""
    for draw in audit.draws.repeated():
        seeding = seeding_before(draw.stack)
        if seeding is None or _is_projection(draw.value, audit):
            continue
        return silent_finding(
            audit,
            "data/repeated-randomness",
            spot=seeding,
            symptom=Spot.of_site(draw.stack[0]),
            step=draw.step,
            phase="data",
            severity=Severity.WARNING,
            verdict="a seed is set in every step, so each step draws the same random numbers",
            what=f"the same numbers in each of {draw.times} steps",
            why="A generator with the same seed yields the same numbers in every step.",
            fix="Seed once, before training, and draw from one generator.",
            patch=seed_once_patch(seeding),
            counterfactual=f"the numbers drawn by this line in {draw.times} steps are "
            "bit-identical",
        )
    return None


def _is_projection(value: Value, audit: Audit) -> bool:
    """A fixed random projection is created from its seed on purpose."""
    return any(call.name in PRODUCTS and value in call.operands for call in audit.tape.calls)


@audit_rule("dtype/uint8-wrap", Rank.CALL)
def wrapped_in_dataset(audit: Audit) -> Finding | None:
    """Unsigned NumPy arithmetic wrapped around while a sample was created."""
    for entry in audit.batches.trained():
        habits = audit.habits_of(entry)
        if habits is None or habits.wraps is None:
            continue
        return wrapped_finding(
            audit, habits.wraps, entry.info.built, f"in sample {habits.indices[0]}: {OTHER_END}"
        )
    return None
