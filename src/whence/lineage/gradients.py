"""Where a gradient went bad: the node of autograd's graph whose incoming gradients are finite and outgoing are not."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from whence.lineage.births import first_bad
from whence.source.sites import Site, is_library, is_own
from whence.source.spots import Spot
from whence.tape.replay import Run, Unreplayable, trouble_in
from whence.tape.tape import Call, CompiledRegion, CustomFunction, flatten, operation_name
from whence.tape.trip import GradientBirth, Trip
from whence.torch_internals import run_backward

MOST_NODES = 100_000
LARGEST_KEPT = 1_000_000
"""Elements of a result that is kept for the question of who made it."""


@dataclass(slots=True)
class _Seen:
    outgoing: tuple[torch.Tensor | None, ...]
    incoming: tuple[torch.Tensor | None, ...]
    bad_out: tuple[bool, ...]
    bad_in: bool


@dataclass(slots=True)
class GradientWatch:
    """Told of each backward of a replay before it runs: hangs itself on every node."""

    seen: dict[Any, _Seen] = field(default_factory=dict)
    parents: dict[Any, list[tuple[Any, int]]] = field(default_factory=dict)
    nodes: list[Any] = field(default_factory=list)

    def __call__(self, call: Call, run: Run) -> None:
        roots = [run.contents[each].grad_fn for each in call.operands if each in run.contents]
        pending = [each for each in roots if each is not None]
        known = set(pending)
        while pending and len(known) < MOST_NODES:
            node = pending.pop()
            self.nodes.append(node)
            node.register_hook(self._hook(node))
            for number, (below, _) in enumerate(node.next_functions):
                if below is None:
                    continue
                self.parents.setdefault(below, []).append((node, number))
                if below not in known:
                    known.add(below)
                    pending.append(below)

    def _hook(self, node: Any) -> Any:
        def note(
            outgoing: tuple[torch.Tensor | None, ...], incoming: tuple[torch.Tensor | None, ...]
        ) -> None:
            bad = tuple(bool(trouble_in(each)) for each in outgoing)
            bad_in = any(trouble_in(each) for each in incoming)
            keep = any(bad) and not bad_in
            if any(bad) or bad_in:
                self.seen[node] = _Seen(
                    outgoing if keep else (), incoming if keep else (), bad, bad_in
                )

        return note

    def find(self, run: Run) -> GradientBirth | None:
        """The birth of the bad gradient of a weight, or None if all weights got finite ones."""
        # A weight may have been made in the very pass.
        made = {
            id(tensor): value
            for value, tensor in run.contents.items()
            if tensor.is_leaf and tensor.requires_grad
        }
        by_tensor = made | {id(tensor): value for value, tensor in run.leaves.items()}
        for node in self.nodes:
            variable = getattr(node, "variable", None)
            if variable is None or id(variable) not in by_tensor:
                continue
            birth = self._above(node)
            if birth is not None:
                found, number = birth
                saw = self.seen[found]
                gradient = saw.outgoing[number]
                if gradient is None:
                    continue
                return GradientBirth(
                    node=found.name(),
                    call=run.call_of(found._sequence_nr()),
                    trouble=trouble_in(gradient),
                    index=first_bad(gradient, trouble_in(gradient)),
                    gradient=gradient.detach(),
                    incoming=tuple(
                        each.detach() if each is not None else None for each in saw.incoming
                    ),
                    weight=by_tensor[id(variable)],
                )
        return None

    def _above(self, node: Any) -> tuple[Any, int] | None:
        """Follow a bad gradient towards the loss, to the node that made it."""
        visited = set()
        while node not in visited:
            visited.add(node)
            for parent, number in self.parents.get(node, ()):
                saw = self.seen.get(parent)
                if saw is not None and number < len(saw.bad_out) and saw.bad_out[number]:
                    if not saw.bad_in:
                        return parent, number
                    node = parent
                    break
            else:
                return None
        return None


@dataclass(eq=False, slots=True)
class _Birth:
    found: tuple[str, Site]
    given: list[torch.Tensor | float]
    second: Any
    result: torch.Tensor | None = None


class InsideWatch(TorchFunctionMode):
    """Names the line inside a custom Function, forward or backward, that gave something not finite: of several, the first that
    the last of all that is not finite was made of. An Inf that is clamped away is none."""

    def __init__(self) -> None:
        super().__init__()
        self.found: tuple[str, Site] | None = None
        self.result: torch.Tensor | None = None
        self.given: list[torch.Tensor | float] = []
        self._second: Any = None
        self._births: list[_Birth] = []
        self._made: dict[int, tuple[torch.Tensor, str, Site]] = {}
        self._tainted: dict[int, tuple[torch.Tensor, _Birth]] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "backward":
            # Within its own handler a mode is off: what backward runs must be seen as well.
            with self:
                run_backward(args[0])
            return None
        given = [
            each for each in flatten((args, kwargs or {})) if isinstance(each, torch.Tensor | float)
        ]
        # Asked before: the call may write its result over one of them.
        bad = [each for each in given if _is_bad(each)]
        is_reading = operation_name(func).endswith("__get__")
        result = func(*args, **(kwargs or {}))
        if not is_reading and (site := _inner_site(sys._getframe(1))) is not None:
            second = args[1] if len(args) > 1 else None
            self._note(_Birth((operation_name(func), site), given, second), bad, result)
        return result

    def _note(self, call: _Birth, bad: list[torch.Tensor | float], result: Any) -> None:
        results = [each for each in flatten(result) if isinstance(each, torch.Tensor)]
        spoilt = next(filter(trouble_in, results), None)
        if spoilt is None:
            if not bad and results and results[0].numel() <= LARGEST_KEPT:
                self._made[id(results[0])] = results[0], *call.found
            return
        if not bad:
            call.result = spoilt
            self._births.append(call)
        elif not self._births:
            return
        # Of several the first; and what autograd has handed on was not seen: it is of the first as well.
        births = [birth for each in bad if (birth := self._birth_of(each)) is not None]
        birth = call if not bad else min(births or self._births, key=self._births.index)
        self._tainted[id(spoilt)] = spoilt, birth
        self.found, self.result, self.given, self._second = (
            birth.found,
            birth.result,
            birth.given,
            birth.second,
        )

    def _birth_of(self, thing: torch.Tensor | float) -> _Birth | None:
        return self._tainted[id(thing)][1] if id(thing) in self._tainted else None

    def divides_by_zero(self) -> bool:
        """Whether it is a division, as the program has written it, and its divisor is 0 there."""
        result, second = self.result, self._second
        if (
            self.found is None
            or result is None
            or "div" not in self.found[0]
            or self.found[0].startswith("__r")
        ):
            return False
        if not isinstance(second, torch.Tensor | int | float):
            return False
        return is_zero(second, result, first_bad(result, trouble_in(result)))

    def maker_of(self, tensor: torch.Tensor) -> tuple[str, Site] | None:
        """The call that gave an operand."""
        made = self._made.get(id(tensor))
        return made[1:] if made is not None else None


def _is_bad(thing: torch.Tensor | float) -> bool:
    return bool(trouble_in(thing)) if isinstance(thing, torch.Tensor) else not math.isfinite(thing)


class Inside(NamedTuple):
    op: str
    spot: Spot
    by_zero: bool
    """It is a division, and its divisor is 0."""


def line_inside(trip: Trip, call: Call | None = None, *, with_hooks: bool = False) -> Inside | None:
    """The operation and the line that did it within a custom Function or compiled code; with hooks: within one of these."""
    whole = call is None or isinstance(call.func, CustomFunction | CompiledRegion)
    if trip.plan is None or not whole:
        return None
    watch = InsideWatch()
    try:
        trip.again(during=watch, with_hooks=with_hooks)
    except Unreplayable:
        return None
    if watch.found is None:
        return None
    return Inside(watch.found[0], Spot.of_site(watch.found[1]), watch.divides_by_zero())


def is_zero(operand: torch.Tensor | float, result: torch.Tensor, index: tuple[int, ...]) -> bool:
    """Whether the operand of an operation, element by element, is 0 at a place of its result."""
    if not isinstance(operand, torch.Tensor):
        return operand == 0
    sizes = zip(reversed(operand.shape), reversed(result.shape), strict=False)
    if operand.dim() > result.dim() or not all(one in (1, other) for one, other in sizes):
        return False
    return float(operand.detach().broadcast_to(result.shape)[index]) == 0


def _inner_site(frame: FrameType | None) -> Site | None:
    """The user's innermost line above Whence's own frames: code that a replay is running."""
    while frame is not None:
        if is_own(frame.f_code.co_filename):
            return None
        if not is_library(frame.f_code.co_filename):
            return Site.of(frame)
        frame = frame.f_back
    return None
