"""Inputs and labels that were one table's rows, and are not beside each other any more."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from whence.finding import Confidence, Finding
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.lineage.datasets.apart import Pair, RowsApart, pair_in, pair_of_tables, rows_apart
from whence.lineage.elsewhere import NotPossible, run_elsewhere
from whence.rules.telling import tell_silent

PATIENCE = 6.0
MOST_PAIRS = 2


def misaligned_rows(audit: Audit, trained: list[LoaderEntry], held: Iterable[tuple[object, object]]) -> Finding | None:
    """Do again what was done before training, and find the rows of the inputs in what comes by."""
    datasets = [each.info.dataset for each in trained if each.info.dataset is not None][:MOST_PAIRS]
    pairs = [pair for one, other in held if (pair := pair_of_tables(one, other)) is not None][:MOST_PAIRS]

    def delivered(dataset: object) -> Pair | None:
        with suppress(Exception):
            return pair_in(dataset)
        return None

    def ask() -> RowsApart | None:
        found = (rows_apart(pair, audit.frames) for pair in (*pairs, *map(delivered, datasets)) if pair is not None)
        return next((each for each in found if each is not None), None)

    try:
        found = run_elsewhere(ask, PATIENCE) if pairs or datasets else None
    except NotPossible:
        return None
    return _tell(audit, found, trained) if found is not None else None


def _tell(audit: Audit, found: RowsApart, trained: list[LoaderEntry]) -> Finding | None:
    mixed, told = found.mixed, found.mixed.told
    table = found.table or "the table"
    proof = "what comes before training was done again, in a child process, and the rows were found by their numbers"
    if told is not None:
        proof += (
            f"; in the order of {table} the inputs tell the labels (correlation {told[1]:.2f}), "
            f"as they are they do not ({told[0]:.2f})"
        )
    return tell_silent(
        audit,
        "data/misaligned",
        spot=found.spot,
        symptom=trained[0].info.built if trained else None,
        step=audit.step,
        phase="data",
        confidence=Confidence.PROVEN if told is None else Confidence.LIKELY,
        verdict=f"the inputs are in another order than their labels from here on: {mixed.wrong} of {mixed.size} have another row's",
        what=f"input {mixed.row} is row {mixed.other} of {table}, and has the label of row {mixed.row}",
        why="The rows of the inputs are moved or left out, and those of the labels are not: the model learns the mean of the labels.",
        fix="Take inputs and labels from one table after its rows are moved, or use one permutation or mask for both.",
        counterfactual=proof,
    )
