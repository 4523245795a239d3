"""An update that destroyed the weights, made once more with an eye on every call. Only ever in a child process.

An optimizer's step is called again; its gradients are still there. An update that the program makes by its own lines is run again from
these, on the weights and gradients from before it. What is not there any more is stood in for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.optim import Optimizer

from whence.finding import Hop
from whence.lineage.again import rests_of
from whence.lineage.births import first_bad
from whence.lineage.gradients import InsideWatch, is_zero
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.hand import Before
from whence.tape.handles import handles_in
from whence.tape.replay import trouble_in
from whence.tape.trip import Trip
from whence.torch_internals import apis, eager_transforms

STAND_INS = (0.5, 0.0)
"""What is put in place of numbers that the update has made NaN. A zero might itself be what is divided by: it comes last."""
PATIENCE_SECONDS = 6.0
FACTORIES = frozenset({"tensor", "as_tensor", "scalar_tensor", "full"})
REFLECTED = frozenset({"__rdiv__", "__rtruediv__", "__truediv__", "__itruediv__"})
"""How torch calls a division where the program has a stroke."""


@dataclass(frozen=True, slots=True)
class Remade:
    """The call of an update that gave NaN or Inf."""

    op: str
    spot: Spot
    trouble: str
    of_zero: bool
    """Whether one of its operands is zero there. Other numbers may come of what stands in for the weights, and are not told."""
    made_by: Hop | None
    """The line that gave the zero, if it is another one."""
    with_zeros: bool = False
    """The gradients were not kept, and zeros stood in for them."""
    is_plain: bool = False
    """The zero is a number of the program's own, and comes from no gradient."""
    is_exact: bool = False
    """Nothing was stood in for, and the same elements of the weights were lost again."""


@dataclass(frozen=True, slots=True)
class Counts:
    """The plain numbers that an optimizer keeps, as they were before a step: how many it has made, mostly."""

    own: dict[str, float]
    of_weights: dict[int, dict[str, float]]
    """By the weights' identity, where it had a state."""

    @classmethod
    def of(cls, optimizer: Optimizer) -> Counts:
        states = {
            id(each): state
            for each, state in optimizer.state.items()
            if isinstance(state, dict) and state
        }
        return cls(
            _numbers(vars(optimizer)), {key: _numbers(state) for key, state in states.items()}
        )

    def put_back(self, optimizer: Optimizer) -> None:
        """A state that was not there before is not there either."""
        vars(optimizer).update(self.own)
        for weight in list(optimizer.state):
            known = self.of_weights.get(id(weight))
            if known is None:
                del optimizer.state[weight]
            else:
                optimizer.state[weight].update(known)


def _numbers(state: Mapping[str, Any]) -> dict[str, float]:
    return {name: each for name, each in state.items() if type(each) in (int, float)}


def made_again(optimizer: Optimizer, counts: Counts | None) -> Remade | None:
    """Where the step that was just made gave NaN or Inf. Its gradients are still there; what it destroyed is stood in for."""
    try:
        return run_in_child(lambda: next(_steps(optimizer, counts), None), need=Need.UPDATE)
    except NotPossible:
        return None


def _steps(optimizer: Optimizer, counts: Counts | None) -> Iterator[Remade]:
    for stand_in in STAND_INS:
        _mend(optimizer, stand_in)
        if counts is not None:
            counts.put_back(optimizer)
        watch = InsideWatch()
        with watch:
            optimizer.step()
        if (found := _told(watch)) is not None:
            yield found


def run_again(
    trip: Trip, weights: Sequence[torch.Tensor], before: Before, backwards_at: Sequence[Site]
) -> Remade | None:
    """The lines after the backward that this trip was noticed in, as they were run the last time: some of these weights are lost.

    Where there are several backwards in a step, those after the one before.
    """
    stacks = [
        trip.stack,
        *((site,) for site in backwards_at if trip.stack and site != trip.stack[0]),
    ]
    if not trip.stack or not trip.frames:
        return None
    try:
        return run_in_child(
            lambda: _lines(trip, weights, before, stacks), PATIENCE_SECONDS, need=Need.UPDATE
        )
    except NotPossible:
        return None


def _lines(
    trip: Trip, weights: Sequence[torch.Tensor], before: Before, stacks: Sequence[Sequence[Site]]
) -> Remade | None:
    lost = [each for each in weights if trouble_in(each)]
    patterns = [torch.isfinite(each) for each in lost]
    standing, is_same = _standing(weights, before)
    is_kept = all(any(each is one for one in standing) for each in lost)
    _clean_state(trip, weights)
    for gradients in (
        _gradients(weights, standing, before) if is_kept else _gradients(weights, [], before)
    ):
        for put_back in _with_contents(standing, before) if is_kept else _with_stand_ins(lost):
            for run in (each for stack in stacks for each in rests_of(stack, trip.frames)):
                put_back()
                watch = InsideWatch()
                with _HandingOut(gradients.of, before), watch:
                    run()
                again = _are_lost_again(lost, patterns)
                found = _told(watch, is_kept and is_same and again)
                if found is not None and (again or not gradients.are_guessed):
                    return replace(found, with_zeros=gradients.are_guessed)
    return None


@dataclass(frozen=True, slots=True)
class _Gradients:
    of: list[tuple[torch.Tensor, torch.Tensor | None]]
    are_guessed: bool = False


def _gradients(
    weights: Sequence[torch.Tensor], standing: Sequence[torch.Tensor], before: Before
) -> Iterator[_Gradients]:
    """Those that were kept. Where there are none: none, then zeros, which are what most updates fail at."""
    yield _Gradients(list(zip(standing, before.gradients, strict=False)))
    if not standing and not before.results:
        yield _Gradients([(each, torch.zeros_like(each)) for each in weights], are_guessed=True)


def _standing(weights: Sequence[torch.Tensor], before: Before) -> tuple[list[torch.Tensor], bool]:
    """The weights of which something was kept, and whether they are the same: else those in their places, which were made since."""
    known = [ref() for ref in before.weights]
    alive = [each for each in known if each is not None]
    if len(alive) == len(known) and any(each is one for each in alive for one in weights):
        return alive, True
    shapes = [each.shape for each in weights]
    alike = (
        bool(known) and not before.results and shapes == [each.shape for each in before.contents]
    )
    return (list(weights) if alike else []), False


def _with_contents(
    standing: Sequence[torch.Tensor], before: Before
) -> Iterator[Callable[[], None]]:
    yield lambda: _copy(list(zip(standing, before.contents, strict=True)))


def _with_stand_ins(lost: Sequence[torch.Tensor]) -> Iterator[Callable[[], None]]:
    spoilt = [(each, each.detach().clone()) for each in lost]
    for stand_in in STAND_INS:
        yield lambda to=stand_in: _copy(
            [(each, torch.where(copy.isfinite(), copy, to)) for each, copy in spoilt]
        )  # type: ignore[misc]


def _copy(pairs: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> None:
    with torch.no_grad():
        for each, content in pairs:
            each.copy_(content)


class _HandingOut:
    """For a backward that is not made a second time: the gradients that it gave the last time. Where none were kept there are none."""

    def __init__(
        self, gradients: list[tuple[torch.Tensor, torch.Tensor | None]], before: Before
    ) -> None:
        self._gradients = gradients
        self._before = before

    def __enter__(self) -> None:
        results, whole = self._before.results, self._before.given_back()
        torch.Tensor.backward = torch.autograd.backward = self._leave  # type: ignore[method-assign]
        torch.autograd.grad = lambda *_, **__: tuple(each.clone() for each in results)  # type: ignore[assignment]
        if whole is not None:
            give = lambda *_, **__: whole  # noqa: E731
            vars(eager_transforms)["grad_and_value_impl"] = vars(apis)["vmap_impl"] = give

    def __exit__(self, *_: object) -> None: ...

    def _leave(self, *_: Any, **__: Any) -> None:
        for weight, gradient in self._gradients:
            weight.grad = gradient.clone() if gradient is not None else None


def _clean_state(trip: Trip, weights: Sequence[torch.Tensor]) -> None:
    """Moments and the like that the update has lost as well. Gradients of now are none of the update's."""
    with torch.no_grad():
        for each in weights:
            each.grad = None
        for frame in trip.frames:
            for _, each in handles_in(frame):
                if each.is_floating_point() and not each.requires_grad and bool(each.isnan().any()):
                    each.nan_to_num_(0.0, float("inf"), float("-inf"))


def _are_lost_again(lost: Sequence[torch.Tensor], patterns: Sequence[torch.Tensor]) -> bool:
    return all(
        bool((torch.isfinite(each) == known).all())
        for each, known in zip(lost, patterns, strict=True)
    )


def _told(watch: InsideWatch, is_exact: bool = False) -> Remade | None:
    result = watch.result
    if watch.found is None or result is None:
        return None
    index = first_bad(result, trouble_in(result))
    zeros = [each for each in watch.given if is_zero(each, result, index)]
    op, site = watch.found
    spot = Spot.of_site(site)
    name = "div" if op in REFLECTED else op
    made_by, is_plain = _maker(watch, zeros, spot), any(_is_plain(watch, each) for each in zeros)
    return Remade(
        name, spot, trouble_in(result), bool(zeros), made_by, is_plain=is_plain, is_exact=is_exact
    )


def _is_plain(watch: InsideWatch, zero: torch.Tensor | float) -> bool:
    made = watch.maker_of(zero) if isinstance(zero, torch.Tensor) else None
    return isinstance(zero, float) or (made is not None and made[0] in FACTORIES)


def _maker(watch: InsideWatch, zeros: Sequence[torch.Tensor | float], spot: Spot) -> Hop | None:
    for each in reversed(zeros):
        made = watch.maker_of(each) if isinstance(each, torch.Tensor) else None
        if made is not None:
            at = Spot.of_site(made[1])
            return (
                at.hop(f"{made[0]} returned the 0")
                if (at.filename, at.line) != (spot.filename, spot.line)
                else None
            )
    return None


def _mend(optimizer: Optimizer, stand_in: float) -> None:
    """Moments begin at zero, weights do not."""
    with torch.no_grad():
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.copy_(torch.where(torch.isfinite(weight), weight, stand_in))
        for state in optimizer.state.values():
            for each in state.values() if isinstance(state, dict) else ():
                if isinstance(each, torch.Tensor) and each.is_floating_point():
                    each.nan_to_num_(0.0, 0.0, 0.0)
