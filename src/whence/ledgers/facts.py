"""The record of each kind of event: its subject, the weights concerned, and a few plain facts."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from whence.ledgers.contents import contents_of, states_in, tensors_of
from whence.ledgers.loop import Kind
from whence.tape.tape import storage_of

HALF = 0.5

Facts = tuple[Any, Iterable[int], dict[str, Any]]


def all_weights_of(optimizer: Optimizer) -> Iterator[torch.Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


def memory_of(tensors: Iterable[torch.Tensor]) -> Iterator[int]:
    """The storages of tensors, because wrappers hold different objects with the same values."""
    return (known for each in tensors if (known := storage_of(each)))


def _mode(args: Any, kwargs: Any, _result: Any) -> Facts:
    return args[0], (), {"training": bool(args[1] if len(args) > 1 else kwargs.get("mode", True))}


def _clear(args: Any, _kwargs: Any, _result: Any) -> Facts:
    subject = args[0]
    weights = (
        nn.Module.parameters(subject) if isinstance(subject, nn.Module) else all_weights_of(subject)
    )
    return subject, [id(each) for each in weights], {"by": type(subject)}


def _clip(args: Any, kwargs: Any, result: Any) -> Facts:
    given, weights, *rest = args
    limit = rest[0] if rest else kwargs.get("max_norm", kwargs.get("clip_value"))
    norm = (
        float(result.detach()) if isinstance(result, torch.Tensor) and result.numel() == 1 else None
    )
    empty = not any(each.grad is not None for each in weights)
    return (
        None,
        [id(each) for each in weights],
        {
            "limit": limit,
            "norm": norm,
            "empty": empty,
            "iterated": isinstance(given, Iterator),
        },
    )


def _unscale(args: Any, kwargs: Any, _result: Any) -> Facts:
    optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
    return optimizer, [id(each) for each in all_weights_of(optimizer)], {}


def _scale(args: Any, _kwargs: Any, _result: Any) -> Facts:
    scaler = args[0]
    return scaler, (), {"scale": float(scaler.get_scale()) if scaler.is_enabled() else 1.0}


def _subject(args: Any, _kwargs: Any, _result: Any) -> Facts:
    return args[0], (), {}


def _state(args: Any, _kwargs: Any, result: Any) -> Facts:
    """A weak reference to a state, if its tensors are the module's own."""
    own = (
        set(memory_of(nn.Module.parameters(args[0]))) if isinstance(result, OrderedDict) else set()
    )
    weights = list(result.values()) if own else []
    shares = any(isinstance(each, torch.Tensor) and storage_of(each) in own for each in weights)
    return args[0], (), {"state": weakref.ref(result) if shares else None}


def _restore(args: Any, _kwargs: Any, _result: Any) -> Facts:
    return args[0], (), {"by": type(args[0])}


def _save(args: Any, kwargs: Any, _result: Any) -> Facts:
    """The objects written to a file: a state, or states by name."""
    given = args[0] if args else kwargs.get("obj")
    return (
        None,
        (),
        {"held": [id(each) for each in (given, *(given.values() if type(given) is dict else ()))]},
    )


def _load(args: Any, kwargs: Any, result: Any) -> Facts:
    module, state = args[0], args[1] if len(args) > 1 else kwargs.get("state_dict", {})
    own = set(memory_of((*nn.Module.parameters(module), *nn.Module.buffers(module))))
    given = [each for each in state.values() if isinstance(each, torch.Tensor)]
    shared = sum(storage_of(each) in own for each in given)
    unexpected = tuple(getattr(result, "unexpected_keys", ()))
    tensors = tensors_of(module)
    few = len(given) - shared - len(unexpected) <= HALF * len(tensors)
    return (
        module,
        (),
        {
            "missing": tuple(getattr(result, "missing_keys", ())),
            "unexpected": unexpected,
            "given": len(given),
            # Where most of the module is unchanged: its contents, to be compared with files.
            "own": contents_of(tensors) if few else {},
            "aliased": bool(given) and shared == len(given),
            "weights": sum(1 for _ in nn.Module.parameters(module)),
        },
    )


def _read(_args: Any, _kwargs: Any, result: Any) -> Facts:
    """The weights in a file, whether it has an optimizer's state, and how far the run was."""
    entries = result.items() if isinstance(result, dict) else ()
    parts = [
        (key, each) for key, each in entries if isinstance(key, str) and isinstance(each, dict)
    ]
    states = [key for key, each in parts if {"state", "param_groups"} <= each.keys()]
    groups = result[states[0]]["param_groups"] if states else ()
    weights = [each for each in states_in(result) if each]
    plans = [(key, plan_in(each)) for key, each in parts if "last_epoch" in each]
    return (
        None,
        (),
        {
            "optimizer": states[0] if states else "",
            "rate": chosen_rate(groups[0]) if groups else None,
            "progress": [
                key for key, each in entries if isinstance(key, str) and isinstance(each, int)
            ],
            "states": weights,
            "schedules": [each for each in plans if each[1].get("last_epoch", 0) > 0],
            "scales": [
                (key, float(each["scale"]))
                for key, each in parts
                if {"scale", "growth_factor"} <= each.keys()
                and isinstance(each["scale"], int | float)
            ],
        },
    )


def chosen_rate(group: Any) -> float | None:
    """The learning rate of a parameter group before a scheduler changed it."""
    rate = group.get("initial_lr", group.get("lr"))
    return float(rate) if isinstance(rate, int | float) else None


def plan_in(state: Any) -> dict[str, int | float]:
    """The plain numbers in a scheduler's state: its arguments and its progress."""
    return {str(key): each for key, each in state.items() if type(each) in (int, float)}


def _cast(args: Any, _kwargs: Any, _result: Any) -> Facts:
    """The dtypes of a module's weights before it is moved or cast."""
    return args[0], (), {"types": {id(each): each.dtype for each in nn.Module.parameters(args[0])}}


FACTS: dict[Kind, Callable[[Any, Any, Any], Facts]] = {
    Kind.MODE: _mode,
    Kind.CLEAR: _clear,
    Kind.CLIP: _clip,
    Kind.SCALE: _scale,
    Kind.UNSCALE: _unscale,
    Kind.STATE: _state,
    Kind.LOAD: _load,
    Kind.RESTORE: _restore,
    Kind.READ: _read,
    Kind.SAVE: _save,
    Kind.CAST: _cast,
}
