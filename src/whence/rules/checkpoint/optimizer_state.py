"""An optimizer's state that another optimizer rejects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import torch
from torch.optim import Optimizer

from whence.finding import Finding, Severity
from whence.rules.checkpoint.edits import appended
from whence.rules.refusals import refusing
from whence.rules.rule import Rank, rule
from whence.rules.telling import failure_finding, shape_text
from whence.source.handlers import Fate
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.builds import Build
from whence.tape.failed import FailedCall

ID = "checkpoint/incomplete-resume"


@rule(ID, Rank.CAUSE)
def refused(failed: FailedCall) -> Finding | None:
    """The form that raises: Optimizer.load_state_dict."""
    names = refusing(failed, Optimizer, "load_state_dict")
    state = names.get("state_dict") if names is not None else None
    if names is None or not isinstance(state, Mapping):
        return None
    optimizer = names["self"]
    if not _is_state(state):
        return _no_state(failed, state)
    saved, own = _sizes(state["param_groups"]), _sizes(optimizer.param_groups)
    if saved == own:
        return None
    return _anothers(failed, optimizer, state) or _other_groups(failed, optimizer, saved, own)


def _is_state(thing: Any) -> bool:
    return isinstance(thing, Mapping) and {"state", "param_groups"} <= thing.keys()


def _sizes(groups: Any) -> tuple[int, ...]:
    return tuple(len(group["params"]) for group in groups)


def _no_state(failed: FailedCall, state: Mapping[Any, Any]) -> Finding | None:
    parts = [key for key, each in state.items() if _is_state(each)]
    part = f"[{parts[0]!r}]" if parts else ""
    return failure_finding(
        failed,
        ID,
        verdict="the optimizer expects its own state, got "
        + (f"a whole checkpoint; the state is in {part}" if parts else "something else"),
        why="An optimizer's state has the keys 'state' and 'param_groups'; this has "
        + ", ".join(map(repr, list(state)[:4]))
        + ".",
        fix=f"Load that part: load_state_dict(checkpoint{part})."
        if parts
        else "Pass the result of optimizer.state_dict().",
        patch=appended(failed, part) if len(parts) == 1 else None,
        severity=_if_not_expected(failed),
    )


def _anothers(failed: FailedCall, optimizer: Optimizer, state: Mapping[Any, Any]) -> Finding | None:
    """Compare shapes: for one model, the moments of one side include those of the other."""
    own = Counter(tuple(each.shape) for group in optimizer.param_groups for each in group["params"])
    moments = [
        next(
            (
                tuple(each.shape)
                for each in entry.values()
                if isinstance(each, torch.Tensor) and each.dim()
            ),
            None,
        )
        for entry in state["state"].values()
        if isinstance(entry, Mapping)
    ]
    saved = Counter(shape for shape in moments if shape is not None)
    if not saved or saved <= own or own <= saved:
        return None
    strange = next(shape for shape in saved if saved[shape] > own[shape])
    return failure_finding(
        failed,
        ID,
        verdict="the state belongs to another model's optimizer",
        why=f"The state has moments for a weight of shape {shape_text(strange)}; this optimizer's "
        "weights have the shapes " + ", ".join(map(shape_text, list(own)[:4])) + ".",
        fix="Load the state that was saved from this optimizer.",
        severity=_if_not_expected(failed),
    )


def _other_groups(
    failed: FailedCall, optimizer: Optimizer, saved: tuple[int, ...], own: tuple[int, ...]
) -> Finding | None:
    build = failed.builds.of(optimizer)
    first = next((each for each in failed.builds.others(optimizer) if each.sizes == saved), None)
    site = _parting(first, build)
    return failure_finding(
        failed,
        ID,
        verdict="the optimizer's parameter groups differ from the checkpoint's: expected "
        f"{_groups_text(saved)}, got {_groups_text(own)}",
        spot=Spot.of_site(site) if site is not None else None,
        chain=(
            Spot.of_site(first.stack[0]).hop(
                f"the saved optimizer was built here, with {_groups_text(saved)}"
            ),
        )
        if first is not None and first.stack
        else (),
        why="The state of a weight is identified by its position in the groups, so their number "
        "and sizes must match the saved run.",
        fix="Build the optimizer with the same groups as in the saved run, then load the state; "
        "or, if the new groups are intended, start with a new state and do not load.",
        severity=_if_not_expected(failed),
    )


def _groups_text(sizes: tuple[int, ...]) -> str:
    return (
        f"{len(sizes)} group{'s' if len(sizes) != 1 else ''} of {', '.join(map(str, sizes))} "
        "weights"
    )


def _parting(first: Build | None, second: Build | None) -> Site | None:
    """The line where the second build departs from the first.

    If both were built in one function, the difference is in its callers.
    """
    if second is None or not second.stack:
        return None
    apart = second.stack[0]
    for one, other in zip(first.stack if first is not None else (), second.stack, strict=False):
        if one != other:
            apart = other
        if one.f_code is not other.f_code:
            break
    return apart


def _if_not_expected(failed: FailedCall) -> Severity:
    """A program that catches the error expects that, and continues with a new state."""
    return Severity.INFO if failed.fate is Fate.CAUGHT else Severity.ERROR
