"""Evaluation data standardized by a scaler that was fitted on them, not on the training data.

Data scaled with another dataset's statistics never have mean 0 and standard deviation 1 exactly.
If each of several parts is standardized on its own, that is intended.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch.utils.data import Subset, TensorDataset

from whence.ledgers.audit import Audit
from whence.ledgers.inputs import Given
from whence.lineage.following.found import PASSED_ON
from whence.lineage.properties import Shows
from whence.lineage.trail import Trail, trace
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing

FEWEST_ROWS = 30
FEWEST_COLUMNS = 2
MOST_ROWS = 1_000_000
EXACT = 2e-4
ROUGHLY = 0.5
FEWEST_IN_PART = 5
NOTHING = 1e-3


def refitted(audit: Audit, trained: Given, evaluated: Given) -> Trail | None:
    """The origin of evaluation data that are exactly standard and are not the training data."""
    data = _whole(audit, evaluated)
    if (
        data is None
        or not is_standard(data)
        or not _is_scaled(trained, data)
        or trained.shares_rows(data)
    ):
        return None
    if any(_is_standard_in_parts(each) for each in (data, *_trained_on(audit, data))):
        return None
    trail = trace(audit.tape.value_of(data), Shows(is_standard, audit.tape), audit)
    if (apart := _apart_from_training(audit, data)) is not None:
        return replace(trail, spot=Spot.of_site(apart), op=None)
    # The scaler itself is correct; report where it is called on these data.
    scaler = _class_at(trail.spot)
    called = [Spot.of_hop(hop) for hop in trail.hops if hop.what == PASSED_ON]
    outside = [
        each for each in called if each is not None and (not scaler or _class_at(each) != scaler)
    ]
    return replace(trail, spot=outside[-1], op=None) if outside else trail


def _apart_from_training(audit: Audit, data: torch.Tensor) -> Site | None:
    """The call site for these data of a function that the training data also pass through."""
    value = audit.tape.known_value(data)
    for other in _trained_on(audit, data):
        like = audit.tape.known_value(other)
        one, two = (
            each.call.stack if each is not None and each.call is not None else ()
            for each in (value, like)
        )
        if one and two and one[0] == two[0]:
            return next((site for site in one if site not in two), None)
    return None


def _class_at(spot: Spot | None) -> tuple[str, str] | None:
    node = spot.node() if spot is not None else None
    kind = enclosing(node, ast.ClassDef) if node is not None else None
    return (spot.file, kind.name) if spot is not None and isinstance(kind, ast.ClassDef) else None


def _whole(audit: Audit, evaluated: Given) -> torch.Tensor | None:
    """All of the evaluation data: the loader's dataset, or the tensor passed at once."""
    current = audit.loaders.current
    dataset = current.info.dataset if current is not None else None
    given = evaluated.inputs[0]() if evaluated.inputs else None
    if isinstance(dataset, TensorDataset):
        return next(
            (
                each
                for each in dataset.tensors
                if given is not None and each.shape[1:] == given.shape[1:]
            ),
            None,
        )
    whole = _drawn_from(dataset, given) if dataset is not None and given is not None else None
    return whole if whole is not None else given


def _drawn_from(dataset: Any, given: torch.Tensor) -> torch.Tensor | None:
    """A tensor of the program's own dataset that contains the given rows."""
    for whole in getattr(dataset, "__dict__", {}).values():
        if (
            isinstance(whole, torch.Tensor)
            and (whole.dtype, whole.device) == (given.dtype, given.device)
            and whole.dim() == given.dim() == 2
            and whole.shape[1] == given.shape[1]
            and len(whole) <= MOST_ROWS
            and bool((whole == given[0]).all(1).any())
        ):
            return whole
    return None


def _trained_on(audit: Audit, like: torch.Tensor) -> Iterator[torch.Tensor]:
    """All of the training data, if loaders draw from tensors."""
    for entry in audit.batches.trained():
        dataset = entry.info.dataset
        dataset = dataset.dataset if isinstance(dataset, Subset) else dataset
        held = (
            dataset.tensors
            if isinstance(dataset, TensorDataset)
            else getattr(dataset, "__dict__", {}).values()
        )
        yield from (
            each
            for each in held
            if isinstance(each, torch.Tensor) and each.shape[1:] == like.shape[1:]
        )


def _is_standard_in_parts(data: torch.Tensor) -> bool:
    """Whether some leading rows also have mean 0 exactly: each part was standardized on its own.

    Such a preparation (per patient, per day) needs nothing from the training data.
    """
    sums = data.detach()[:, _measured(data.detach())].double().nan_to_num().cumsum(0)
    # The rounding error of a sum of values that were scaled in single precision.
    left = NOTHING + 1e-6 * torch.arange(len(sums))[:, None]
    return bool((sums.abs() < left).all(1)[FEWEST_IN_PART:-FEWEST_IN_PART].any())


def _is_scaled(trained: Given, like: torch.Tensor) -> bool:
    """Whether the columns that are standard in other data are roughly standard in training."""
    leaf = next(iter(trained.summary.leaves.values()), None)
    numbers = leaf.array.numbers if leaf is not None and leaf.array is not None else None
    facts = numbers.facts() if numbers is not None else []
    if len(facts) == like.shape[1]:
        facts = [
            each
            for each, is_measured in zip(facts, _measured(like).tolist(), strict=True)
            if is_measured
        ]
    return bool(facts) and all(
        each.mean is not None
        and each.std is not None
        and abs(each.mean) < ROUGHLY
        and abs(each.std - 1) < ROUGHLY
        for each in facts
    )


def is_standard(thing: Any) -> bool:
    """Whether every continuous column has mean 0 and std 1 to the precision of its dtype."""
    shape = tuple(getattr(thing, "shape", ()))
    if len(shape) != 2 or not FEWEST_ROWS <= shape[0] <= MOST_ROWS or shape[1] < FEWEST_COLUMNS:
        return False
    if "float" not in str(thing.dtype):
        return False
    numbers = torch.as_tensor(thing).detach()
    numbers = numbers[:, _measured(numbers)].double()
    if numbers.shape[1] < FEWEST_COLUMNS:
        return False
    spread, mean = torch.std_mean(numbers, dim=0, correction=0)
    # With Bessel's correction the standard deviation is slightly smaller.
    low = (1 - 1 / shape[0]) ** 0.5
    return bool(
        (mean.abs() < EXACT).all()
        and ((spread - 1).abs() < EXACT).logical_or((spread - low).abs() < EXACT).all()
    )


def _measured(numbers: torch.Tensor) -> torch.Tensor:
    """Which columns have fractions; one-hot columns and counts are not standardized."""
    return (numbers != numbers.trunc()).any(0)
