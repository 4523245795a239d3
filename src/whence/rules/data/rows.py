"""Inputs and labels that were rows of one table and are no longer aligned."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice

import torch
from torch.utils.data import TensorDataset

from whence.finding import Confidence, Finding
from whence.ledgers.audit import Audit
from whence.ledgers.batches import LoaderEntry
from whence.lineage.ancestry import ancestors
from whence.lineage.datasets.apart import Pair, RowsApart, pair_in, pair_of_tables, rows_apart
from whence.lineage.datasets.belonging import are_told
from whence.lineage.datasets.preparing import innermost
from whence.lineage.loops.histories import history_of
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.telling import silent_finding
from whence.source.sites import Site, variables
from whence.tape.tape import Call

PATIENCE = 6.0
MOST_PAIRS = 2
MOST_CALLS = 64
CUTS = frozenset({"__getitem__", "index_select", "narrow", "split", "chunk", "select", "unbind"})

Compared = tuple[ast.expr, ast.expr, ast.Call, ast.AST, tuple[Site, ...]]
"""A model's input and a loss's target as written, the loss call, its scope and stack."""


def held_together(audit: Audit, compared: Iterable[Compared]) -> Iterator[tuple[object, object]]:
    """The full inputs and labels from which steps without a loader take their rows."""
    yield from _taken_from(audit)
    for given, label, _, scope, stack in compared:
        frame = next((each for each in audit.frames if each.f_code is stack[0].f_code), None)
        known = {**stack[0].f_globals, **(variables(frame) if frame is not None else {})}
        names = [history_of(each, scope).names for each in (given, label)]
        held = [
            [known[name] for name in each if hasattr(known.get(name), "__len__")] for each in names
        ]
        if all(held):
            one, other = (max(each, key=len) for each in held)
            yield one, other


def _taken_from(audit: Audit) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Tensors from which recorded steps slice both the inputs and the targets."""
    for call in islice(reversed(audit.tape.calls), MOST_CALLS):
        first, second = call.operands if len(call.operands) == 2 else (None, None)
        if first is None or second is None or first.requires_grad == second.requires_grad:
            continue
        guess, aim = (first, second) if first.requires_grad else (second, first)
        labels = _cut_from(aim.call)
        if guess.shape[:1] != aim.shape[:1] or labels is None:
            continue
        for each in islice(ancestors(guess), MOST_CALLS):
            inputs = _cut_from(each)
            if inputs is not None and inputs is not labels and len(inputs) == len(labels):
                yield inputs, labels


def _cut_from(call: Call | None) -> torch.Tensor | None:
    """The tensor from which a call takes rows, if it holds data."""
    whole = call.operands[0] if call is not None and call.name in CUTS and call.operands else None
    tensor = whole.tensor if whole is not None else None
    return tensor if tensor is not None and not tensor.requires_grad and tensor.dim() else None


def misaligned_rows(
    audit: Audit, trained: list[LoaderEntry], held: Iterable[tuple[object, object]]
) -> Finding | None:
    """Run the preparation again and locate the rows of the inputs in its tables."""
    datasets = [innermost(each.info.dataset) for each in trained if each.info.dataset is not None][
        :MOST_PAIRS
    ]
    # Tensors are inspected here, where that is cheap; datasets fetch samples in the child.
    tables = [
        each.tensors
        for each in datasets
        if isinstance(each, TensorDataset) and len(each.tensors) > 1
    ]
    datasets = [each for each in datasets if not isinstance(each, TensorDataset)]
    whole = (
        pair_of_tables(one, other)
        for one, other in chain(held, ((each[0], each[-1]) for each in tables))
    )
    pairs = [each for each in islice(filter(None, whole), MOST_PAIRS) if not are_told(*each)]

    def ask() -> RowsApart | None:
        found = (
            rows_apart(pair, audit.frames)
            for pair in (*pairs, *map(_delivered, datasets))
            if pair is not None
        )
        return next((each for each in found if each is not None), None)

    try:
        # A preparation that took longer than this the first time takes as long the second time.
        found = (
            run_in_child(ask, PATIENCE, need=Need.PREPARATION)
            if (pairs or datasets) and audit.prepared < PATIENCE
            else None
        )
    except NotPossible:
        return None
    return _report_rows(audit, found, trained) if found is not None else None


def _delivered(dataset: object) -> Pair | None:
    with suppress(Exception):
        return pair_in(dataset)
    return None


def _report_rows(audit: Audit, found: RowsApart, trained: list[LoaderEntry]) -> Finding | None:
    mixed, correlations = found.mixed, found.mixed.told
    table = found.table or "the table"
    proof = (
        "the preparation ran again in a child process, and the rows were located by their values"
    )
    if correlations is not None:
        proof += (
            f"; in the order of {table} the inputs predict the labels "
            f"(correlation {correlations[1]:.2f}), as paired they do not ({correlations[0]:.2f})"
        )
    return silent_finding(
        audit,
        "data/misaligned",
        spot=found.spot,
        symptom=trained[0].info.built if trained else None,
        step=audit.step,
        phase="data",
        confidence=Confidence.PROVEN if correlations is None else Confidence.LIKELY,
        verdict=f"{mixed.wrong} of {mixed.size} inputs have the label of another row, from this "
        "line on",
        what=f"input {mixed.row} is row {mixed.other} of {table}, but has the label of "
        + (f"row {mixed.row}" if mixed.row != mixed.other else "another row"),
        why="The rows of the inputs are reordered or dropped, and those of the labels are not, so "
        "the model learns the mean of the labels.",
        fix="Take inputs and labels from one table after its rows are reordered, or apply one "
        "permutation or mask to both.",
        counterfactual=proof,
    )
