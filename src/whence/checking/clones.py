"""Copies of model, loss and batch that share nothing with the originals.

`copy.deepcopy` does most of it. In addition, tensors on a graph are detached from it, and functions
(hooks, lambdas, a loss that closes over the model) are bound to the copies, so that running them
never reaches the originals.
"""

from __future__ import annotations

import copy
import functools
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import CellType, FunctionType
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from whence.checking.structure import fresh, tensors_in

Memo = dict[int, Any]
CONTAINERS = (list, dict, set, deque)
MOST_ENTRIES = 1000


class Uncopyable(Exception):
    """The model, the loss or the batch cannot be copied."""


@dataclass(frozen=True, slots=True)
class Clone:
    model: nn.Module
    loss_fn: Any
    batch: Any


def clone(model: nn.Module, loss_fn: Any, batch: Any, stand_ins: Memo | None = None) -> Clone:
    """Copy all three together. `stand_ins` maps ids to objects used instead of copies."""
    memo: Memo = dict(stand_ins or {})
    for tensor in _on_graphs(model, loss_fn, batch):
        memo[id(tensor)] = fresh(tensor)
    made = Clone(
        _copied(unwrapped(model), memo, "model"),
        _copied(loss_fn, memo, "loss"),
        _copied(batch, memo, "batch"),
    )
    for root in (made.model, made.loss_fn):
        if isinstance(root, nn.Module):
            _bind_functions(root, memo)
    for original, copied in zip(
        unwrapped(model).parameters(), made.model.parameters(), strict=True
    ):
        if copied.requires_grad != original.requires_grad:
            copied.requires_grad_(original.requires_grad)
    return Clone(made.model, bound(made.loss_fn, memo), made.batch)


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model inside torch.compile's wrapper, if there is one."""
    inner = getattr(model, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else model


def is_lazy(tensor: Any) -> bool:
    return isinstance(tensor, UninitializedParameter | UninitializedBuffer)


def _copied(thing: Any, memo: Memo, what: str) -> Any:
    try:
        # A scripted module copies its weights by an operation, which must not be on a graph.
        with torch.no_grad():
            return copy.deepcopy(thing, memo)
    except Exception as error:
        raise Uncopyable(
            f"the {what} cannot be copied ({type(error).__name__}: {error})"
        ) from error


def _on_graphs(model: nn.Module, loss_fn: Any, batch: Any) -> Iterator[torch.Tensor]:
    """Tensors that `deepcopy` rejects: results of earlier calls held by a module or the batch."""
    held = [each for _, each in tensors_in(batch)]
    for root in (model, loss_fn):
        for module in root.modules() if isinstance(root, nn.Module) else ():
            held += [
                each for _, each in tensors_in([*vars(module).values(), *module._buffers.values()])
            ]
    return (each for each in held if not is_lazy(each) and not each.is_leaf)


def _bind_functions(root: nn.Module, memo: Memo) -> None:
    for module in root.modules():
        for name, held in list(vars(module).items()):
            if isinstance(held, FunctionType | functools.partial):
                vars(module)[name] = bound(held, memo)
            elif isinstance(held, dict) and name not in ("_parameters", "_buffers", "_modules"):
                for key, each in list(held.items()):
                    held[key] = bound(each, memo)
            elif type(held) is list:
                held[:] = [bound(each, memo) for each in held]


def bound(thing: Any, memo: Memo) -> Any:
    """Rebind a function so that it uses the copies in place of the originals."""
    if isinstance(thing, functools.partial):
        return functools.partial(bound(thing.func, memo), *thing.args, **thing.keywords)
    if not isinstance(thing, FunctionType):
        return thing
    cells = tuple(_cell(each, memo) for each in thing.__closure__ or ())
    names = {
        name: replaced
        for name in thing.__code__.co_names
        if name in thing.__globals__
        and (replaced := _stand_in(thing.__globals__[name], memo)) is not thing.__globals__[name]
    }
    if not names and all(
        one is other for one, other in zip(cells, thing.__closure__ or (), strict=True)
    ):
        return thing
    scope = {**thing.__globals__, **names} if names else thing.__globals__
    made = FunctionType(thing.__code__, scope, thing.__name__, thing.__defaults__, cells)
    made.__kwdefaults__ = thing.__kwdefaults__
    made.__dict__.update(thing.__dict__)
    return made


def _cell(cell: CellType, memo: Memo) -> CellType:
    try:
        content = cell.cell_contents
    except ValueError:
        return cell
    replaced = _stand_in(content, memo)
    return cell if replaced is content else CellType(replaced)


def _stand_in(thing: Any, memo: Memo) -> Any:
    """Return the existing copy of an object, or copy a module, tensor or small container."""
    if id(thing) in memo:
        return memo[id(thing)]
    small = isinstance(thing, CONTAINERS) and len(thing) <= MOST_ENTRIES
    if not small and not isinstance(thing, nn.Module) and not isinstance(thing, torch.Tensor):
        return thing
    if isinstance(thing, torch.Tensor) and not thing.is_leaf:
        memo[id(thing)] = fresh(thing)
        return memo[id(thing)]
    try:
        return copy.deepcopy(thing, memo)
    except Exception:
        return thing
