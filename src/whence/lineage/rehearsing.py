"""Which of several calls it was, where the numbers are gone and the calls were recorded in another step.

What the program's functions hand to one another is put to the test: with zeros in its place, or another ordinary number all
over, are the calls behind it finite? A flat signal, a blank image and an empty row are such data. Numbers within a function are
left as they come: the mean of squares under a root is never negative.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch

from whence.lineage.births import ORDINARY, Contents, attempt, find_birth
from whence.tape.replay import trouble_in
from whence.tape.slices import is_random
from whence.tape.tape import Call, Tape, Value
from whence.tape.trip import Born

DEEPEST = 60
MOST_CALLS = 2_000


class Rehearsed(Contents):
    """What recorded calls give with one number all over in place of one value, and harmless data in place of all that is gone."""

    def __init__(self, tape: Tape, cut: Value | None = None, number: float = 0.0) -> None:
        super().__init__(tape)
        self._cut = cut
        self._number = number
        self._depth = 0

    def _recall(self, value: Value) -> torch.Tensor | None:
        if value is self._cut:
            return torch.full(value.shape, self._number, dtype=value.dtype, device=value.device)
        tensor = value.tensor
        if (
            value.call is None
            and value.leaf is None
            and tensor is not None
            and self.tape.known_value(tensor) is value
        ):
            return tensor.detach()
        if value.call is None or _cannot_be_made(value.call):
            return _harmless(value)
        if value.call.inner or self._depth > DEEPEST:
            return None
        self._depth += 1
        found = attempt(value.call, self.of, value)
        self._depth -= 1
        return found


def birth_in_rehearsal(
    value: Value, observed: torch.Tensor, tape: Tape
) -> tuple[Born, float] | None:
    """The one call that makes what was observed of ordinary numbers, if no other does, and one such number."""
    usual = Rehearsed(tape).of(value)
    if usual is None or trouble_in(usual):
        return None
    found: list[tuple[Born, float]] = []
    for cut in _handed_over(value):
        for number in ORDINARY:
            rehearsed = Rehearsed(tape, cut, number)
            if trouble_in(rehearsed.of(value)) == trouble_in(observed):
                found.append(
                    (find_birth(value, rehearsed, lambda each, cut=cut: each is cut), number)  # type: ignore[misc]
                )
    places = {
        (each.call.name, each.call.site) if each.call is not None else None for each, _ in found
    }
    return found[0] if len(places) == 1 and None not in places else None


def _handed_over(value: Value) -> list[Value]:
    """Of all that led to a value, what came from outside or from another function; of several from one line to one line, the first."""
    found: dict[object, Value] = {}
    for call in _led_to(value):
        for operand in call.operands:
            maker = operand.call
            if not operand.dtype.is_floating_point or call.site is None:
                continue
            if maker is None or maker.site is None or _cannot_be_made(maker):
                found.setdefault((None, call.site), operand)
            elif maker.site.f_code is not call.site.f_code:
                found.setdefault((maker.site, call.site), operand)
    return list(found.values())


def _led_to(value: Value) -> Iterator[Call]:
    pending, seen = [value], set[Call]()
    while pending and len(seen) < MOST_CALLS:
        call = pending.pop().call
        if call is not None and call not in seen and not _cannot_be_made(call):
            seen.add(call)
            yield call
            pending += call.operands


def _cannot_be_made(call: Call) -> bool:
    return call.forgotten or call.has_foreign or is_random(call)


def _harmless(value: Value) -> torch.Tensor:
    """Different numbers between 0 and 1, at none of which a common function has a pole or an edge."""
    if not value.dtype.is_floating_point:
        return torch.zeros(value.shape, dtype=value.dtype, device=value.device)
    count = torch.Size(value.shape).numel()
    return torch.linspace(0.1, 0.9, count, device=value.device).reshape(value.shape).to(value.dtype)
