"""Updates by hand: how a step is known where no optimizer says that it was made.

A program without an optimizer changes its weights in place, or makes new ones from their gradients. Either shows when they
are used again: a weight is no longer what it was when backward began, or there are only weights that nobody has seen.
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
"""What is copied in every step has to be little: more takes longer than a look at the gradients."""


@dataclass(slots=True)
class Before:
    """What an update by hand is made of: the weights when backward ended, and their gradients. Copies, in memory that is used again."""

    weights: list[weakref.ref[torch.Tensor]] = field(default_factory=list)
    contents: list[torch.Tensor] = field(default_factory=list)
    gradients: list[torch.Tensor | None] = field(default_factory=list)
    results: list[torch.Tensor] = field(default_factory=list)
    """Gradients that were given back instead of being left at the weights."""
    made: list[torch.Tensor] = field(default_factory=list)
    """What `torch.func` gave back, where it was that. The weights are all that it was given then."""
    form: TreeSpec | None = None

    def keep_function(self, given: Sequence[torch.Tensor], result: Any) -> None:
        made, form = tree_flatten(result)
        self.form = None
        if (
            not all(isinstance(each, torch.Tensor) for each in made)
            or sum(each.nbytes for each in made) > MOST_BYTES
        ):
            return
        # Detached: of what has a graph, torch warns whoever asks for its gradient.
        self.keep([each.detach() for each in given])
        if self.weights:
            with torch.no_grad():
                self.made, self.form = copied(made, self.made), form

    def given_back(self) -> Any:
        """None if `torch.func` has given nothing that was kept."""
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
    """In one call, where there are copies of such tensors already."""
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
    """The weights that gradients were computed for since the last step, as they were then."""

    def __init__(self) -> None:
        self.on = True
        """No optimizer was seen yet: the program may change its weights by itself."""
        self.since = 0
        """The first call of the tape after the last backward began."""
        self.made_at: tuple[Site, ...] = ()
        """Where the last update was seen to be made."""
        self.within = False
        """Hooks make updates while backward is under way, and may have cleared the gradients when it has ended."""
        self.before = Before()
        self._marks: dict[int, tuple[weakref.ref[torch.Tensor], Any]] = {}
        self._given: list[weakref.ref[torch.Tensor]] = []
        """What `torch.func` gave the last time."""

    def note_given(self, gradients: Iterable[torch.Tensor]) -> None:
        self._given = list(map(weakref.ref, gradients))

    def note(self, weights: Iterable[torch.Tensor], count: int) -> None:
        """Backward begins."""
        for each in weights:
            if self._mark_of(each) is None:
                self._marks[id(each)] = weakref.ref(each), _state(each)
        self.since = count

    def forget(self) -> None:
        self._marks = {}

    def weights(self) -> list[torch.Tensor]:
        return [each for ref, _ in self._marks.values() if (each := ref()) is not None]

    def has_moved(self) -> bool:
        """Whether one of the weights was changed since."""
        known = ((ref(), mark) for ref, mark in self._marks.values())
        return any(weight is not None and mark != _state(weight) for weight, mark in known)

    def are_others(self, weights: Sequence[torch.Tensor]) -> bool:
        """Whether these are none of them, and stand in their place."""
        return bool(self._marks and weights) and not any(
            self._mark_of(each) is not None for each in weights
        )

    def is_next(self, weight: Value) -> bool:
        """Whether a weight that is about to be used is one of them, changed, or was made of their gradients."""
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
    """The weights that a loss hangs on, as far as its graph is small."""
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
    """Something that changes when a weight is changed in place, `.data` included."""
    try:
        first = float(weight.detach().reshape(-1)[0]) if is_readable(weight) else 0.0
        return weight._version, first
    except (RuntimeError, ValueError, IndexError):
        return -1
