"""Where a NaN or Inf was born: back from a value that has one to the first call that made it from finite operands.

At each call the question is put by trying: with this operand mended, is the result finite? So a mask of -inf that does no
harm is passed by, and one that does is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import torch

from whence.tape.native import run_native
from whence.tape.replay import Run, Unreplayable, leaving_no_trace, trouble_in
from whence.tape.slices import is_random
from whence.tape.tape import Call, Foreign, Tape, Value, flatten, map_leaves
from whence.tape.trip import Born, Trip

GUESSES = (1.0, 0.73)
APART = 0.97
RARE = 0.05
FEW_BIASES = 2
DEEPEST_GUESS = 8
LONGEST_WALK = 5_000
# Neither a pole nor the edge of a domain of any common function: log, sqrt, 1/x, acos, atanh, log1p(-x), exp.
HARMLESS = 0.5
ORDINARY = (0.0, -1.0, 1.0, 1e3)
ORDINARY_SIZE = 1e4
HUGE = 1e12
MOST_FORKS = 2
UNINITIALISED = frozenset({"empty", "empty_like", "new_empty", "empty_strided", "empty_permuted"})


class Contents:
    """What values contained: as a replay computed them, as they still are, or computed again from the tape."""

    def __init__(self, tape: Tape, run: Run | None = None) -> None:
        self.tape = tape
        self.run = run or Run()
        self._recalled: dict[Value, torch.Tensor | None] = {}

    def of(self, value: Value) -> torch.Tensor | None:
        if value in self.run.contents:
            return self.run.contents[value]
        if value not in self._recalled:
            self._recalled[value] = None
            self._recalled[value] = self._recall(value)
        return self._recalled[value]

    def trouble(self, value: Value) -> str:
        if value in self.run.contents:
            return self.run.troubles.get(value, "")
        return trouble_in(self.of(value))

    def _recall(self, value: Value) -> torch.Tensor | None:
        if value in self.tape.copies:
            return self.tape.copies[value]
        tensor = value.tensor
        if tensor is not None and self.tape.known_value(tensor) is value:
            return tensor.detach()
        call = value.call
        if call is None or call.forgotten or call.has_foreign or call.inner or is_random(call):
            return None
        return attempt(call, self.of, value)

    def knows_operands(self, call: Call) -> bool:
        return all(self.of(each) is not None for each in call.operands)

    def knows_carrier(self, call: Call) -> bool:
        """Whether an operand is known that is not finite, whatever became of the others."""
        return any(self.trouble(each) for each in call.operands)


class Guessed(Contents):
    """The same, with a number in place of what is gone and cannot be had again."""

    def __init__(self, tape: Tape, run: Run | None, number: float, written: int = 0) -> None:
        super().__init__(tape, run)
        self._number = number
        self._written = written
        """Memory that has been written to since: what it held before is gone."""
        self._depth = 0

    def _recall(self, value: Value) -> torch.Tensor | None:
        found = None
        if self._depth < DEEPEST_GUESS and (not self._written or value.storage != self._written):
            self._depth += 1
            found = super()._recall(value)
            self._depth -= 1
        if found is not None or value.dtype is torch.bool:
            return found
        # Each value has a number of its own: the difference of two that are gone is not 0.
        number = self._number * APART ** len(self._recalled)
        return torch.full(value.shape, number, device=value.device).to(value.dtype)


def fails_for_any(call: Call, output: Value, tape: Tape, run: Run | None) -> bool:
    """Whether a call's result is not finite whatever its freed operands were."""
    results = (attempt(call, Guessed(tape, run, each).of, output) for each in GUESSES)
    return all(each is not None and bool(trouble_in(each)) for each in results)


def birth_by_what_is_left(leaf: Value, tape: Tape, run: Run) -> Born | None:
    """Not all that led to a value is still there. Where any number in its place gives the same birth, what is there did it."""
    found: list[Born] = []
    for number in GUESSES:
        guessed = Guessed(tape, run, number, leaf.storage)
        maker = leaf.call
        if maker is None or not trouble_in(attempt(maker, guessed.of, leaf)):
            return None
        found.append(_walk_from(leaf, maker, guessed))
    first = found[0]
    same = all(each.call is first.call for each in found)
    return first if same and first.call is not None else None


def _walk_from(leaf: Value, maker: Call, guessed: Guessed) -> Born:
    carriers = _carriers(maker, leaf, guessed)
    if not carriers:
        return Born("nan", call=maker, output=leaf)
    born = find_birth(
        carriers[0],
        guessed,
        lambda each: each.call is None or each.call.has_foreign or each.call.inner,
    )
    return replace(born, path=(*born.path, maker))


def carried_from(call: Call) -> Call:
    """Back from a call over those that make finite results of any numbers: what came out of them had come in."""
    while (
        call.operands and not call.has_foreign and all(map(partial(_stays_finite, call), ORDINARY))
    ):
        maker = call.operands[0].call
        if maker is None or maker.forgotten or len(set(call.operands)) > 1:
            break
        call = maker
    return call


def still_bad(call: Call) -> Value | None:
    """Of what a call was given, or that was a part of: what is alive, and not finite."""
    for value in dict.fromkeys(call.operands):
        whole: Value | None = value
        for _ in range(DEEPEST_GUESS):
            if whole is None:
                break
            if trouble_in(whole.tensor):
                return whole
            whole = (
                whole.call.operands[0] if whole.call is not None and whole.call.operands else None
            )
    return None


def _stays_finite(call: Call, number: float) -> bool:
    made = attempt(
        call, lambda value: torch.full(value.shape, number, device=value.device).to(value.dtype)
    )
    return made is not None and not trouble_in(made)


def contents_before(trip: Trip, call: Call) -> Contents:
    """What values contained just before a call: of what is changed in place later, nothing else will do."""
    if (
        trip.plan is not None
        and call in trip.plan.calls
        and any(each.changed for each in trip.plan.calls)
    ):
        try:
            return Contents(trip.tape, trip.again(until=call))
        except Unreplayable:
            pass
    return Contents(trip.tape, trip.run)


def attempt(
    call: Call, content: Callable[[Value], torch.Tensor | None], value: Value | None = None
) -> torch.Tensor | None:
    """Run one call again on copies of its operands; what it gives for `value`, or its first result."""

    def argument(thing: Any) -> Any:
        if isinstance(thing, Value):
            tensor = content(thing)
            if tensor is None:
                raise LookupError
            return tensor.detach().clone()
        if isinstance(thing, Foreign):
            raise LookupError
        return thing

    with leaving_no_trace(), torch.no_grad():
        try:
            args, kwargs = map_leaves(argument, call.args), map_leaves(argument, call.kwargs)
            result = run_native(call.func, args, kwargs)
        except Exception:
            return None
    number = call.outputs.index(value) if value is not None and value in call.outputs else 0
    if number < len(call.changed):
        place = (
            call.operands.index(call.changed[number])
            if call.changed[number] in call.operands
            else 0
        )
        given = [each for each in flatten((args, kwargs)) if isinstance(each, torch.Tensor)]
        return given[place] if place < len(given) else None
    results = [each for each in flatten(result) if isinstance(each, torch.Tensor)]
    number -= len(call.changed)
    return results[number] if number < len(results) else None


def mended(tensor: torch.Tensor) -> torch.Tensor:
    return torch.where(torch.isfinite(tensor), tensor, torch.full((), HARMLESS, dtype=tensor.dtype))


def find_birth(
    value: Value, contents: Contents, is_leaf: Callable[[Value], bool], forks: int = MOST_FORKS
) -> Born:
    """Walk back from a value that is not finite. `is_leaf` says where the walk must end; at so many forks all ways are tried."""
    path: list[Call] = []
    made_nan: tuple[Call, Value, int] | None = None
    current, trouble = value, contents.trouble(value)
    for _ in range(LONGEST_WALK):
        call = current.call
        if call is None or call.forgotten or is_leaf(current):
            given = not current.requires_grad and current.leaf is None
            if (
                made_nan is not None
                and trouble == "inf"
                and given
                and is_mask(current, contents.of(current))
            ):
                return _at(made_nan, path, mask=current)
            return Born(trouble, leaf=current, path=tuple(reversed(path)))
        if (
            trouble == "inf"
            and is_deliberate(call)
            and not any(contents.trouble(each) for each in call.operands)
        ):
            if made_nan is not None:
                return _at(made_nan, path, mask=current)
            return Born(trouble, call=call, output=current, path=tuple(reversed(path)))
        carriers = _carriers(call, current, contents)
        if not carriers and is_read(call):
            return Born(trouble, leaf=current, path=tuple(reversed(path)))
        if not carriers:
            return Born(trouble, call=call, output=current, path=tuple(reversed(path)))
        carrier = carriers[0]
        if len(carriers) > 1 and forks:
            forks -= 1
            carrier = _plainest(carriers, contents, is_leaf)
        if trouble == "nan" and contents.trouble(carrier) == "inf":
            made_nan = call, current, len(path)
        path.append(call)
        current, trouble = carrier, contents.trouble(carrier)
    return Born(trouble, leaf=current, path=tuple(reversed(path)))


def _at(made: tuple[Call, Value, int], path: list[Call], mask: Value) -> Born:
    call, output, length = made
    return Born("nan", call=call, output=output, path=tuple(reversed(path[:length])), mask=mask)


def is_mask(value: Value, tensor: torch.Tensor | None) -> bool:
    """Whether a program wrote these infinities to mask something.

    Data with many different values that are infinite in a few places are no mask, nor is an array
    from numpy. A mask has infinities of one sign: a division by zero gives both.
    """
    if tensor is None:
        return True
    if bool((tensor == math.inf).any()) and bool((tensor == -math.inf).any()):
        return False
    finite = tensor.isfinite()
    of_few = len(set(tensor[finite].reshape(-1).tolist())) <= FEW_BIASES
    is_given = value.call is not None and is_from_outside(value.call)
    return of_few or (not is_given and float(finite.float().mean()) < 1 - RARE)


def is_read(call: Call) -> bool:
    """Whether a call only returns what is stored: `weight.grad` computes nothing, and is no origin."""
    return call.name.endswith(".__get__")


def is_from_outside(call: Call) -> bool:
    """It makes a tensor of what torch has not made: an array, or a list of numbers of which one is not finite."""
    listed = call.args[0] if call.args and not call.operands else None
    return call.has_foreign or (
        isinstance(listed, list | tuple) and any(map(_is_bad_number, flatten(listed)))
    )


def _is_bad_number(thing: Any) -> bool:
    return isinstance(thing, Real) and not math.isfinite(thing)


def is_deliberate(call: Call) -> bool:
    """The program writes the Inf itself: `masked_fill(mask, -inf)`, `full(..., inf)`."""
    return any(
        isinstance(each, float) and not math.isfinite(each)
        for each in flatten((call.args, call.kwargs))
    )


def _plainest(carriers: list[Value], contents: Contents, is_leaf: Callable[[Value], bool]) -> Value:
    """Of several that bring trouble each by itself: not one that has overflowed of huge numbers, where another comes of ordinary ones."""
    for each in carriers:
        call = find_birth(each, contents, is_leaf, forks=0).call
        largest = (
            _largest_operand(call, contents)
            if call is not None and not is_deliberate(call)
            else math.nan
        )
        if largest < ORDINARY_SIZE or (each is carriers[0] and not largest >= HUGE):
            return each
    return carriers[0]


def _largest_operand(call: Call, contents: Contents) -> float:
    known = (contents.of(each) for each in call.operands)
    floats = [
        each for each in known if each is not None and each.is_floating_point() and each.numel()
    ]
    return max((float(each.detach().abs().max()) for each in floats), default=math.nan)


def _carriers(call: Call, output: Value, contents: Contents) -> list[Value]:
    """The operands that bring the trouble into a call, if it takes all of them to be rid of it; none if the call made it."""
    bad = [
        each
        for each in dict.fromkeys(call.operands)
        if each is not output and contents.trouble(each)
    ]
    bad.sort(key=lambda each: contents.trouble(each) != "nan")
    if not bad:
        return []
    for cured in [*([each] for each in bad), bad]:
        result = attempt(
            call,
            lambda value, cured=cured: _mended_if(value, cured, contents),  # type: ignore[misc]
            output,
        )
        if result is None:
            # It cannot be tried: what is not finite goes on from an operand that is not.
            return bad[:1]
        left = trouble_in(result)
        # What is left may be this call's own: an Inf beside a NaN that came in, and came first.
        if not left or (left == "inf" and contents.trouble(output) == "nan"):
            return cured
    spoilt = _spoilt_before(output, bad, contents)
    return [spoilt] if spoilt is not None else []


def _spoilt_before(output: Value, bad: list[Value], contents: Contents) -> Value | None:
    """What is kept for all steps and has NaN has been spoilt as a whole: its other numbers (the zeros of x / inf) are no better.

    Where the result is a single number, they cannot be told apart.
    """
    is_one = not output.shape or math.prod(output.shape) == 1
    kept = (
        each
        for each in bad
        if each.leaf is None and each.call is not None and each.call.phase != "forward"
    )
    return (
        next((each for each in kept if contents.trouble(each) == "nan"), None) if is_one else None
    )


def _mended_if(value: Value, cured: list[Value], contents: Contents) -> torch.Tensor | None:
    tensor = contents.of(value)
    if tensor is None:
        return None
    # What was finite when it was made, and is not any more, was changed in place since: by this call, or a later one.
    changed_since = not contents.trouble(value) and bool(trouble_in(tensor))
    return mended(tensor) if value in cured or changed_since else tensor


def first_bad(tensor: torch.Tensor, trouble: str) -> tuple[int, ...]:
    """The place of the first NaN, or of the first Inf where there is no NaN."""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        return ()
    places = (torch.isnan(tensor) if trouble == "nan" else ~torch.isfinite(tensor)).nonzero()
    return tuple(int(each) for each in places[0]) if len(places) else ()
