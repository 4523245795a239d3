"""Checks of updates: non-finite weights, a raised loss, non-finite state."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.optim import LBFGS, Optimizer

from whence.rerun.child import NotPossible, run_in_child, run_where_safe
from whence.rerun.permission import Need
from whence.tape.replay import Plan, Run, Unreplayable, replay, same_bits, trouble_in
from whence.tape.tape import Value
from whence.tape.trip import BadState, BadUpdate, RateTrial

ABSURD = 1e12
SUDDEN = 30.0
RAISED = 3.0
ABOUT = 0.01
FACTORS = (0.1, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)


def is_torchs(optimizer: Optimizer) -> bool:
    return type(optimizer).__module__.startswith("torch.optim")


def evaluates_once(optimizer: Optimizer) -> bool:
    """Whether the step calls its closure once, before any change, so that the pass is ordinary.

    Lightning passes a closure to every step.
    """
    return is_torchs(optimizer) and not isinstance(optimizer, LBFGS)


def rounds_eps(optimizer: Optimizer) -> bool:
    """Whether it has float16 weights and an eps that is zero in float16."""
    eps = optimizer.defaults.get("eps")
    if (
        not is_torchs(optimizer)
        or not isinstance(eps, float)
        or float(torch.tensor(eps).half()) > 0
    ):
        return False
    return any(
        each.dtype is torch.float16 for group in optimizer.param_groups for each in group["params"]
    )


def dry_run(optimizer: Optimizer, name: Callable[[torch.Tensor], str]) -> BadUpdate | None:
    """Try a step with an eps that rounds to zero on copies, before it destroys the weights."""
    with contextlib.suppress(NotPossible):
        return run_in_child(lambda: _dry_run(optimizer, name), need=Need.UPDATE)
    return None


def _dry_run(optimizer: Optimizer, name: Callable[[torch.Tensor], str]) -> BadUpdate | None:
    after = _stepped(optimizer, torch.float16)
    if after is None or not (bad := [weight for weight, each in after if trouble_in(each)]):
        return None
    wide = _stepped(optimizer, torch.float32)
    finite = wide is not None and not any(trouble_in(each) for _, each in wide)
    return BadUpdate(
        type(optimizer).__name__,
        tuple(map(name, bad)),
        torch.float16,
        optimizer.defaults["eps"],
        finite,
    )


def _stepped(
    optimizer: Optimizer, dtype: torch.dtype
) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
    """The weights after this step, computed on copies in another dtype.

    For child processes: a step calls the program's hooks on all optimizers.
    """
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        copies = []
        for weight in group["params"]:
            if weight.grad is not None:
                copy = weight.detach().to(dtype, copy=True).requires_grad_()
                copy.grad = weight.grad.detach().to(dtype, copy=True)
                copies.append(copy)
                pairs.append((weight, copy))
        groups.append({**group, "params": copies})
    try:
        kind: Any = type(optimizer)
        twin = kind([each for each in groups if each["params"]])
        for weight, copy in pairs:
            if weight in optimizer.state:
                twin.state[copy] = {
                    key: each.detach().to(
                        dtype if each.is_floating_point() and each.dim() else each.dtype, copy=True
                    )
                    if isinstance(each, torch.Tensor)
                    else each
                    for key, each in optimizer.state[weight].items()
                }
        twin.step()
    except Exception:
        return None
    return pairs


def kept_in_float32(optimizer: Optimizer) -> float | None:
    """The share of elements with a gradient that the step would leave unchanged in float32."""
    with contextlib.suppress(NotPossible):
        return run_in_child(lambda: _kept_in_float32(optimizer), need=Need.UPDATE)
    return None


def _kept_in_float32(optimizer: Optimizer) -> float | None:
    after = _stepped(optimizer, torch.float32)
    if not after:
        return None
    pairs = [(weight, copy) for weight, copy in after if weight.grad is not None]
    aimed = sum(int((weight.grad != 0).sum()) for weight, _ in pairs if weight.grad is not None)
    kept = sum(
        int(((copy == weight.float()) & (weight.grad != 0)).sum())
        for weight, copy in pairs
        if weight.grad is not None
    )
    return kept / max(aimed, 1)


def bad_state(optimizer: Optimizer) -> BadState | None:
    """Non-finite moments and other state."""
    bad = {
        key
        for state in optimizer.state.values()
        for key, each in state.items()
        if isinstance(each, torch.Tensor) and trouble_in(each)
    }
    return BadState(tuple(sorted(bad)), type(optimizer).__name__) if bad else None


def is_out_of_bounds(losses: Sequence[float], start: float) -> bool:
    """Whether the loss is above its start, and far above its start or its recent values.

    A spike below the start does not count.
    """
    if len(losses) < 2 or not math.isfinite(losses[-1]) or losses[-1] <= losses[-2]:
        return False
    before = sorted(abs(each) for each in list(losses)[-11:-1])
    usual = before[len(before) // 2]
    return losses[-1] > 2 * start and losses[-1] > SUDDEN * min(max(usual, 1e-6), max(start, 1e-6))


@dataclass(slots=True)
class RateProbe:
    """A suspected update: the weights from before it, and the step to replay."""

    rate: float | None
    plan: Plan
    target: Value
    observed: torch.Tensor
    before: list[tuple[torch.Tensor, torch.Tensor]]
    """Weights, and copies of them."""
    start: float
    """The first loss of the run."""

    def settle(self, after: Sequence[torch.Tensor] | None = None) -> RateTrial | None:
        """Check whether the update raises the loss of its batch and a smaller one lowers it.

        The update is in place, or `after` holds the new weights in the same order.
        """
        new = [weight for weight, _ in self.before] if after is None else after
        if [each.shape for each in new] != [copy.shape for _, copy in self.before]:
            return None
        moves = {
            id(weight): (copy, now.detach())
            for (weight, copy), now in zip(self.before, new, strict=True)
        }
        return self._tried(moves, observed=0.0)

    def look_back(self) -> RateTrial | None:
        """The same for an update made before the observed loss was computed."""
        return self._tried(
            {id(weight): (copy, weight.detach()) for weight, copy in self.before}, observed=1.0
        )

    def _tried(
        self, moves: dict[int, tuple[torch.Tensor, torch.Tensor]], *, observed: float
    ) -> RateTrial | None:
        """Try the update; the loss was observed with this share of it applied."""
        try:
            return run_where_safe(self.plan.calls, lambda: self._try(moves, observed))
        except NotPossible:
            return None

    def _try(
        self, moves: dict[int, tuple[torch.Tensor, torch.Tensor]], observed: float
    ) -> RateTrial | None:
        try:
            start = self._loss(moves, 0.0)
            raised = self._loss(moves, 1.0)
            seen = raised if observed else start
            if start is None or seen is None or not same_bits(seen, self.observed):
                return None
            low, high = (
                float(start.item()),
                float(raised.item()) if raised is not None else math.inf,
            )
            if math.isfinite(high) and (
                high < RAISED * abs(low) or high <= low or high < 2 * self.start
            ):
                return None
            # An update for another batch may not lower this loss, but a sound one leaves it about
            # the same.
            bound = low + ABOUT * abs(low) if observed else low
            for factor in FACTORS:
                tried = self._loss(moves, factor)
                if tried is not None and float(tried.item()) < bound:
                    return RateTrial(self.rate, low, high, factor, float(tried.item()))
        except (Unreplayable, RuntimeError, KeyError):
            pass
        return None

    def _loss(
        self, moves: dict[int, tuple[torch.Tensor, torch.Tensor]], share: float
    ) -> torch.Tensor | None:
        """The loss of the same step with this share of the update applied."""
        leaves: dict[Value, torch.Tensor] = {}
        for value in {
            each for call in self.plan.calls for each in call.operands if self.plan.is_given(each)
        }:
            weight = (
                value.tensor
                if value.tensor is not None and id(value.tensor) in moves
                else self._given(value)
            )
            if weight is not None and id(weight) in moves:
                old, new = moves[id(weight)]
                leaves[value] = (
                    old if share == 0.0 else new if share == 1.0 else old + share * (new - old)
                )
        run: Run = replay(self.plan, substitute=leaves)
        return run.contents.get(self.target) if run.raised is None else None

    def _given(self, value: Value) -> torch.Tensor | None:
        try:
            return self.plan.resolve(value)
        except Unreplayable:
            return None
