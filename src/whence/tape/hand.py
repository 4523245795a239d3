"""Manual updates: how a step is recognized if no optimizer reports it.

A program without an optimizer changes its weights in place, or makes new ones from their gradients.
Both show at their next use: a weight differs from its value when backward began, or all weights are
new.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.source.sites import Site
from whence.tape.readable import is_readable
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Value
from whence.torch_internals import TreeSpec, copy_all_, tree_flatten, tree_unflatten

MOST_NODES = 500
MOST_CALLS_UP = 24
MOST_BYTES = 2**18
"""The copies made in every step must be small: larger ones take longer than the gradient check."""


@dataclass(slots=True)
class Before:
    """The inputs of a manual update: the weights when backward ended, and their gradients.

    These are copies in memory that is reused.
    """

    weights: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    contents: list[torch.Tensor] = field(default_factory=list)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    results: list[torch.Tensor] = field(default_factory=list)
    """Gradients that were returned instead of being stored at the weights."""
    made: list[torch.Tensor] = field(default_factory=list)
    """The result of `torch.func`, if that computed them. The weights are then all of its inputs."""
    form: TreeSpec | None = None

    def keep_function(self, given: Sequence[torch.Tensor], result: Any) -> None:
        made, form = tree_flatten(result)
        self.form = None
        if (
            not all(isinstance(each, torch.Tensor) for each in made)
            or sum(each.nbytes for each in made) > MOST_BYTES
        ):
            return
        # Detached: PyTorch warns when `.grad` of a non-leaf is read.
        self.keep([each.detach() for each in given])
        if self.weights:
            with torch.no_grad():
                self.made, self.form = copied(made, self.made), form

    def given_back(self) -> Any:
        """Return the result of `torch.func`, or None if none was kept."""
        return (
            tree_unflatten([each.clone() for each in self.made], self.form)
            if self.form is not None
            else None
        )

    def keep(self, weights: Sequence[torch.Tensor], results: Sequence[torch.Tensor] = ()) -> None:
        if sum(each.nbytes for each in weights) > MOST_BYTES:
            self.weights, self.contents, self.gradients, self.results = [], [], [], []
            return
        slopes = [each.grad for each in weights]
        with torch.no_grad():
            self.contents = copied(weights, self.contents)
            given = [each for each in slopes if each is not None]
            made = copied(given, [each for each in self.gradients if each is not None])
            self.results = copied(results, self.results) if results else []
        if len(given) == len(slopes):
            self.gradients = list(made)
        else:
            left = iter(made)
            self.gradients = [next(left) if each is not None else None for each in slopes]
        self.weights = list(map(weakref.ref, weights))


def copied(tensors: Sequence[torch.Tensor], room: list[torch.Tensor]) -> list[torch.Tensor]:
    """Copy tensors, in one call if `room` already has copies of the same form."""
    if (
        tensors
        and len(room) == len(tensors)
        and all(
            one.shape == other.shape and one.dtype is other.dtype and not other.is_sparse
            for one, other in zip(room, tensors, strict=True)
        )
    ):
        copy_all_(room, list(tensors))
        return room
    return [each.detach().clone() for each in tensors]


class Hand:
    """The weights that received gradients since the last step, as they were then."""

    def __init__(self) -> None:
        self.on = True
        """No optimizer was seen yet: the program may update its weights manually."""
        self.since = 0
        """The first call on the tape after the last backward began."""
        self.made_at: tuple[Site, ...] = ()
        """Where the last update was made."""
        self.within = False
        """Hooks make updates during backward, and may have cleared the gradients by its end."""
        self.before = Before()
        self._marks: dict[int, tuple[weakref.ref[torch.Tensor], Any]] = {}
        self._given: list[weakref.ref[torch.Tensor]] = []
        """The last result of `torch.func`."""

    def note_given(self, gradients: Iterable[torch.Tensor]) -> None:
        self._given = list(map(weakref.ref, gradients))

    def note(self, weights: Iterable[torch.Tensor], count: int) -> None:
        """Note the weights when backward begins."""
        for each in weights:
            if self._mark_of(each) is None:
                self._marks[id(each)] = weakref.ref(each), _state(each)
        self.since = count

    def forget(self) -> None:
        self._marks = {}

    def weights(self) -> list[torch.Tensor]:
        return [each for ref, _ in self._marks.values() if (each := ref()) is not None]

    def has_moved(self) -> bool:
        """Return whether one of the weights has changed since."""
        known = ((ref(), mark) for ref, mark in self._marks.values())
        return any(weight is not None and mark != _state(weight) for weight, mark in known)

    def are_others(self, weights: Sequence[torch.Tensor]) -> bool:
        """Return whether these weights are all new and replace the noted ones."""
        return bool(self._marks and weights) and not any(
            self._mark_of(each) is not None for each in weights
        )

    def is_next(self, weight: Value) -> bool:
        """Return whether a weight in use was changed, or was made from the noted gradients."""
        tensor = weight.tensor
        if tensor is None or not self._marks or not is_weight(tensor):
            return False
        mark = self._mark_of(tensor)
        is_next = (
            mark != _state(tensor)
            if mark is not None
            else self.is_made_of_gradients(weight, self.since)
        )
        if is_next and weight.call is not None and weight.call.number >= self.since:
            self.made_at = weight.call.stack
        return is_next

    def is_made_of_gradients(self, weight: Value, since: int = 0) -> bool:
        pending: list[Value] = [weight]
        seen = 0
        given = [each for ref in self._given if (each := ref()) is not None]
        while pending and seen < MOST_CALLS_UP:
            value = pending.pop()
            call, tensor = value.call, value.tensor
            seen += 1
            if tensor is not None and any(tensor is each for each in given):
                return True
            if call is None or call.number < since:
                continue
            if call.name in (*BACKWARDS, "grad.__get__"):
                return True
            pending += call.operands
        return False

    def _mark_of(self, weight: torch.Tensor) -> Any:
        ref, mark = self._marks.get(id(weight), (None, None))
        return mark if ref is not None and ref() is weight else None


def is_weight(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad and tensor.is_leaf


def weights_under(loss: torch.Tensor) -> list[torch.Tensor]:
    """Return the weights that a loss depends on, if its graph is small."""
    found: list[torch.Tensor] = []
    pending, seen = [loss.grad_fn], {loss.grad_fn}
    while pending and len(seen) < MOST_NODES:
        node = pending.pop()
        weight = getattr(node, "variable", None)
        if isinstance(weight, torch.Tensor) and is_weight(weight):
            found.append(weight)
        below = [
            each
            for each, _ in getattr(node, "next_functions", ())
            if each is not None and each not in seen
        ]
        seen.update(below)
        pending += below
    return found


def _state(weight: torch.Tensor) -> Any:
    """Return a value that changes when a weight is changed in place, including through `.data`."""
    try:
        first = float(weight.detach().reshape(-1)[0]) if is_readable(weight) else 0.0
        return weight._version, first
    except (RuntimeError, ValueError, IndexError):
        return -1
