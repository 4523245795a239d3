"""Networks that provide the targets of a loss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torch import nn

from whence.ledgers.audit import Audit
from whence.rules.shape.layers import root_of
from whence.source.blocks import dotted
from whence.source.sites import Site
from whence.tape.scopes import Scope
from whence.tape.slices import BACKWARDS, is_random
from whence.tape.tape import Call, storage_of

LOSSES = 5
MOST_CALLS = 2_000


def trained_memory(audit: Audit) -> set[int]:
    """The storages of the weights that optimizers own."""
    optimizers = [each.optimizer for each in audit.built]
    return {
        storage_of(weight)
        for optimizer in optimizers
        for group in (optimizer.param_groups if optimizer is not None else ())
        for weight in group["params"]
    }


def run_without_gradients(audit: Audit) -> Iterator[tuple[Scope, nn.Module, set[int]]]:
    """Outermost modules that run only without gradients in recorded steps, with their calls."""
    without: dict[int, Scope] = {}
    numbers: dict[int, set[int]] = {}
    with_gradients: set[int] = set()
    for call, root, module in _outermost(audit):
        if call.grad_mode:
            with_gradients.add(id(module))
        else:
            without[id(module)] = root
            numbers.setdefault(id(module), set()).add(call.number)
    for key, scope in without.items():
        if key not in with_gradients and (ran := scope.module) is not None:
            yield scope, ran, numbers[key]


def runs_by_name(audit: Audit) -> Iterator[tuple[Scope, nn.Module, set[int]]]:
    """Outermost modules that one line runs without gradients, with the calls of that line."""
    without: dict[tuple[int, Site], Scope] = {}
    numbers: dict[tuple[int, Site], set[int]] = {}
    for call, root, module in _outermost(audit):
        if not call.grad_mode:
            key = id(module), root.called_from[0]
            without[key] = root
            numbers.setdefault(key, set()).add(call.number)
    for key, scope in without.items():
        if (ran := scope.module) is not None:
            yield scope, ran, numbers[key]


def names_in_training(audit: Audit) -> dict[int, set[str]]:
    """The names of networks where they run with gradients, by the identity of the network."""
    names: dict[int, set[str]] = {}
    for key, site in {
        (id(module), root.called_from[0])
        for call, root, module in _outermost(audit)
        if call.grad_mode
    }:
        call = site.node()
        if isinstance(call, ast.Call) and (name := dotted(call.func)) is not None:
            names.setdefault(key, set()).add(name)
    return names


def _outermost(audit: Audit) -> Iterator[tuple[Call, Scope, nn.Module]]:
    for call in audit.tape.calls:
        root = root_of(call)
        module = root.module if root is not None and root.called_from else None
        if root is not None and module is not None and call.phase == "forward":
            yield call, root, module


def gives_targets(audit: Audit, numbers: set[int]) -> bool:
    """Whether the last losses depend on results of these calls since the last update.

    Only values count: a sampled action or an index is a decision of the network, not a target.
    Results from before an update are fixed, whatever happens to the network's memory.
    """
    losses = [call for call in audit.tape.calls if call.name in BACKWARDS and call.operands][
        -LOSSES:
    ]
    updates = [
        call.number
        for call in audit.tape.calls
        if call.phase == "optimizer" and call.name == "step"
    ]
    used = [(loss, set(_numbers_behind(loss)) & numbers) for loss in losses]
    fresh = [
        min(found) > max((each for each in updates if each < loss.number), default=-1)
        for loss, found in used
        if found
    ]
    return bool(fresh) and all(fresh)


def _numbers_behind(loss: Call) -> Iterator[int]:
    pending, seen = list(loss.operands), set[int]()
    while pending and len(seen) < MOST_CALLS:
        value = pending.pop()
        call = value.call
        if call is None or id(call) in seen or not value.dtype.is_floating_point or is_random(call):
            continue
        seen.add(id(call))
        yield call.number
        pending += call.operands
