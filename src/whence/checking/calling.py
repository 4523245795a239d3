"""How to call the model with the batch, and the loss with the model's output.

A loss is `loss_fn(output, targets)`, `loss_fn(output)` or `loss_fn(model, batch)`. Parameter names
decide where they can: a first parameter called `model` or `net`. Otherwise the readings are tried,
most likely first, and the first one that runs is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from whence.checking.clones import Clone

TARGETS = ("labels", "label", "targets", "target", "y", "y_true", "labels_ids")
INPUTS = (
    "inputs",
    "input",
    "x",
    "images",
    "image",
    "pixel_values",
    "input_ids",
    "data",
    "features",
)
MODELS = ("model", "net", "network", "module", "self")


class NoLoss(Exception):
    """The loss function returned something that cannot be trained on."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


@dataclass(frozen=True, slots=True)
class Pass:
    """One forward pass: the loss, and each call of the model during it."""

    loss: torch.Tensor
    calls: tuple[ModelCall, ...]


Feed = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Way:
    """One reading of batch and loss.

    `feed` and `targets` select their parts of a batch; without them the loss calls the model.
    """

    described: str
    feed: Callable[[Any], Feed] | None = None
    targets: Callable[[Any], Any] | None = None

    def run(self, clone: Clone) -> Pass:
        calls: list[ModelCall] = []
        if self.feed is None:
            handle = clone.model.register_forward_hook(
                lambda _module, args, kwargs, output: calls.append(ModelCall(args, kwargs, output)),
                with_kwargs=True,
            )
            try:
                loss = clone.loss_fn(clone.model, clone.batch)
            finally:
                handle.remove()
        else:
            args, kwargs = self.feed(clone.batch)
            output = clone.model(*args, **kwargs)
            calls.append(ModelCall(args, kwargs, output))
            loss = (
                clone.loss_fn(output, self.targets(clone.batch))
                if self.targets
                else clone.loss_fn(output)
            )
        return Pass(_as_loss(loss), tuple(calls))


def _as_loss(loss: Any) -> torch.Tensor:
    if not isinstance(loss, torch.Tensor):
        raise NoLoss(f"the loss is {_kind(loss)}, not a tensor")
    if loss.numel() != 1:
        raise NoLoss(f"the loss has shape {tuple(loss.shape)}; expected a scalar")
    return loss


def _kind(thing: Any) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"


def ways(model: nn.Module, batch: Any, loss_fn: Any) -> list[Way]:
    """Return the possible readings, most likely first. There is always one."""
    names = _positional(loss_fn)
    by_loss = Way("loss_fn(model, batch)")
    if names is not None and names and names[0] in MODELS:
        return [by_loss]
    arity = len(names) if names is not None else 2
    found: list[Way] = []
    for said, targets, inputs in _splits(batch):
        for feed_said, feed in _feeds(model, batch, inputs):
            if arity == 1:
                found.append(Way(f"loss_fn(model({feed_said}))", feed))
            else:
                found.append(Way(f"loss_fn(model({feed_said}), {said})", feed, targets))
    if not isinstance(loss_fn, nn.Module) and arity == 2:
        found.append(by_loss)
    return found


def _positional(function: Any) -> list[str] | None:
    """Return the required parameters by name; None if the signature is unavailable."""
    try:
        parameters = inspect.signature(
            function.forward if isinstance(function, nn.Module) else function
        ).parameters
    except (TypeError, ValueError):
        return None
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [
        name
        for name, each in parameters.items()
        if each.kind in plain and each.default is each.empty
    ]
    return needed or None


Take = Callable[[Any], Any]


def _splits(batch: Any) -> Iterator[tuple[str, Take, Take]]:
    """Split a batch into targets and inputs: (description, targets, inputs)."""
    if isinstance(batch, tuple | list) and not hasattr(batch, "_fields"):
        if len(batch) == 2:
            yield "batch[1]", lambda given: given[1], lambda given: given[0]
        elif len(batch) > 2:
            yield "batch[-1]", lambda given: given[-1], lambda given: tuple(given[:-1])
            yield "batch[1:]", lambda given: tuple(given[1:]), lambda given: given[0]
        elif batch:
            yield "batch[0]", lambda given: given[0], lambda given: given[0]
        return
    if isinstance(batch, Mapping):
        key = next((each for each in TARGETS if each in batch), None)
        if key is not None:
            yield f"batch[{key!r}]", lambda given: given[key], lambda given: _without(given, key)
        yield "batch", lambda given: given, lambda given: given
        return
    name = next((each for each in TARGETS if hasattr(batch, each)), None)
    if name is not None and not isinstance(batch, torch.Tensor):
        yield f"batch.{name}", lambda given: getattr(given, name), lambda given: given
    yield "batch", lambda given: given, lambda given: given


def _without(given: Mapping[Any, Any], key: str) -> dict[Any, Any]:
    return {name: each for name, each in given.items() if name != key}


def _feeds(model: nn.Module, batch: Any, inputs: Take) -> list[tuple[str, Callable[[Any], Feed]]]:
    """Ways to pass the inputs to the model's forward."""
    signature = _signature(model)
    given = inputs(batch)
    found: list[tuple[str, Callable[[Any], Feed], Feed]] = []

    def offer(said: str, feed: Callable[[Any], Feed]) -> None:
        found.append((said, feed, feed(batch)))

    if isinstance(given, Mapping):
        names = set(signature.parameters) if signature is not None else set()
        whole = isinstance(batch, Mapping) and all(str(key) in names for key in batch)
        if whole:
            offer("**batch", lambda each: ((), dict(each)))
        offer(
            "**inputs", lambda each: ((), {str(key): value for key, value in inputs(each).items()})
        )
        kept = [key for key in given if str(key) in names]
        if kept and len(kept) < len(given):
            offer("**inputs", lambda each: ((), {str(key): inputs(each)[key] for key in kept}))
        single = (
            next(iter(given), None)
            if len(given) == 1
            else next((key for key in INPUTS if key in given), None)
        )
        if single is not None:
            offer(f"batch[{single!r}]", lambda each: ((inputs(each)[single],), {}))
        offer("inputs", lambda each: ((inputs(each),), {}))
    elif isinstance(given, tuple | list) and not hasattr(given, "_fields"):
        offer("*inputs", lambda each: (tuple(inputs(each)), {}))
        offer("inputs", lambda each: ((inputs(each),), {}))
    else:
        offer("inputs", lambda each: ((inputs(each),), {}))
    fitting = [
        (said, feed)
        for said, feed, example in found
        if signature is None or _binds(signature, example)
    ]
    return fitting or [(said, feed) for said, feed, _ in found[:1]]


def _signature(model: nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(model.forward)
    except (TypeError, ValueError):
        return None


def _binds(signature: inspect.Signature, feed: Feed) -> bool:
    try:
        signature.bind(*feed[0], **feed[1])
    except TypeError:
        return False
    return True


@dataclass(slots=True)
class Choice:
    """Return the reading that runs, or the most likely one and its exception."""

    way: Way
    raised: Exception | None = None
    others: list[str] = field(default_factory=list)


def choose(fresh: Callable[[], Clone], candidates: list[Way]) -> Choice:
    first: Choice | None = None
    for way in candidates:
        try:
            way.run(fresh())
        except Exception as error:
            if first is None:
                first = Choice(way, error)
            else:
                first.others.append(way.described)
        else:
            return Choice(way)
    assert first is not None
    return first
