"""A custom backward is not the derivative of its forward.

What happened
    The backward of a custom autograd Function does not match its forward's derivative: a missing
    factor, a wrong formula, or None for an input that needs a gradient.
Why it matters
    The weights before it receive wrong gradients, and nothing raises.
How it is detected
    Each custom Function of a recorded step is run again on its own inputs, in float64 where
    possible, and its backward is compared with finite differences along random directions.
How to fix it
    Return the derivative times the incoming gradient. torch.autograd.gradcheck compares the two.
When it stays silent
    For intentional differences: straight-through estimators and quantisers (the forward is flat),
    gradient reversal, scaling and clipping (the forward is the identity), a gradient that passes
    where the forward is clamped. For Functions that draw random numbers.
Cost
    A few runs of the Function in a few recorded steps; none without a custom Function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.rules.custom_functions import (
    argument_position,
    caller_of,
    gradient_written,
    is_librarys,
    parameter_names,
    shared_by,
)
from whence.rules.nonfinite.telling import number_text
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.spots import Spot
from whence.tape.replay import leaving_no_trace
from whence.tape.tape import Call, CustomFunction, Value

# Step size of finite differences and tolerance: in float64, and in the Function's own dtype.
FINE = 1e-6, 1e-4
COARSE = 1e-2, 0.02
MOST_ELEMENTS = 1_000_000
NEAR = 0.2


@dataclass(frozen=True, slots=True)
class Difference:
    """The derivative of one input along a direction: from backward, and measured."""

    number: int
    given: float
    true: float
    is_none: bool
    others: tuple[int, ...] = ()
    """Further inputs whose gradients are wrong."""
    right: tuple[int, ...] = ()
    """Inputs whose gradients match the derivative."""


@study_rule("gradient/wrong-custom", Rank.CAUSE)
def wrong_custom(study: Study) -> Finding | None:
    seen: set[type] = set()
    for _, call in study.loss_calls():
        func = call.func
        if not isinstance(func, CustomFunction) or func.kind in seen or is_librarys(func.kind):
            continue
        seen.add(func.kind)
        run = study.run
        if run is None or any(each not in run.contents for each in call.operands):
            continue
        with leaving_no_trace():
            found = compare(call, [run.contents[each].detach() for each in call.operands])
        if found is not None:
            return _report(study, call, func, found)
    return None


def compare(call: Call, contents: Sequence[torch.Tensor]) -> Difference | None:
    """The input whose gradient is not the derivative, or None."""
    if sum(each.numel() for each in contents) > MOST_ELEMENTS:
        return None
    for wide in (torch.float64, None):
        inputs = [_as(each, wide) for each in contents]
        try:
            return _compared(
                caller_of(call), inputs, call.operands, *(FINE if wide is not None else COARSE)
            )
        except (RuntimeError, TypeError, ValueError):
            # It does not accept float64: try its own dtype.
            continue
    return None


def _as(tensor: torch.Tensor, dtype: torch.dtype | None) -> torch.Tensor:
    return tensor.to(dtype) if dtype is not None and tensor.is_floating_point() else tensor.clone()


def _compared(
    run: Callable[[Sequence[torch.Tensor]], torch.Tensor],
    inputs: list[torch.Tensor],
    values: Sequence[Value],
    step: float,
    tolerance: float,
) -> Difference | None:
    generator = torch.Generator().manual_seed(0)
    plain = run([each.clone() for each in inputs])
    if not torch.equal(plain, run([each.clone() for each in inputs])) or not bool(
        torch.isfinite(plain).all()
    ):
        return None
    wanted = [
        n
        for n, (each, value) in enumerate(zip(inputs, values, strict=True))
        if value.requires_grad and each.is_floating_point()
    ]
    leaves = [
        each.clone().requires_grad_(n in wanted) if each.is_floating_point() else each
        for n, each in enumerate(inputs)
    ]
    result = run(leaves)
    if not result.requires_grad:
        return None
    weights = torch.randn(result.shape, generator=generator, dtype=result.dtype)
    gradients = torch.autograd.grad(result, [leaves[n] for n in wanted], weights, allow_unused=True)
    found: list[Difference] = []
    right: list[int] = []
    for n, gradient in zip(wanted, gradients, strict=True):
        differs = _differing(run, inputs, n, gradient, weights, generator, step, tolerance)
        if differs is None:
            right.append(n)
        elif _is_meant(run, inputs, n, gradient, weights, plain, step, tolerance):
            # A straight-through estimator may define its own gradient for its scale, too.
            return (
                replace(found[0], others=tuple(each.number for each in found[1:]))
                if found
                else None
            )
        else:
            found.append(differs)
    if not found:
        return None
    return replace(found[0], others=tuple(each.number for each in found[1:]), right=tuple(right))


def _differing(
    run: Callable[[Sequence[torch.Tensor]], torch.Tensor],
    inputs: list[torch.Tensor],
    n: int,
    gradient: torch.Tensor | None,
    weights: torch.Tensor,
    generator: torch.Generator,
    step: float,
    tolerance: float,
) -> Difference | None:
    """The difference for one input, if its gradient is wrong in all directions."""
    wrong, checked = 0, 0
    last: Difference | None = None
    for _ in range(3):
        direction = torch.randn(inputs[n].shape, generator=generator, dtype=inputs[n].dtype)
        scale = step * max(1.0, float(inputs[n].abs().max()) if inputs[n].numel() else 1.0)
        change = _slope(run, inputs, n, scale * direction) / scale
        true = float((change * weights).sum())
        given = float((gradient * direction).sum()) if gradient is not None else 0.0
        size = float((change.abs() * weights.abs()).sum()) + abs(given)
        if size == 0.0 or not size < float("inf"):
            continue
        nearer = _slope(run, inputs, n, scale / 2 * direction) / (scale / 2)
        if float(((nearer - change).abs() * weights.abs()).sum()) > NEAR * size:
            # The function jumps here (`where(x > 0, log(x), -30)` at 0): there is no derivative.
            continue
        checked += 1
        if abs(true - given) > tolerance * size:
            wrong += 1
            last = Difference(n, given, true, gradient is None)
    return last if checked and wrong == checked else None


def _slope(
    run: Callable[[Sequence[torch.Tensor]], torch.Tensor],
    inputs: list[torch.Tensor],
    n: int,
    move: torch.Tensor,
) -> torch.Tensor:
    """The central difference of the result when one input moves by `move`."""
    there, back = (
        run([each + sign * move if k == n else each for k, each in enumerate(inputs)])
        for sign in (1, -1)
    )
    return (there - back) / 2


def _is_meant(
    run: Callable[[Sequence[torch.Tensor]], torch.Tensor],
    inputs: list[torch.Tensor],
    n: int,
    gradient: torch.Tensor | None,
    weights: torch.Tensor,
    plain: torch.Tensor,
    step: float,
    tolerance: float,
) -> bool:
    """Whether the backward differs on purpose: the forward is (partly) flat, or the identity."""
    subject = inputs[n]
    # Elements move differently: a softmax does not change if all of them move by the same amount.
    move = step * max(1.0, float(subject.abs().max())) * _uneven(subject)
    if plain.shape != subject.shape:
        return bool(
            torch.equal(
                run([each + move if k == n else each for k, each in enumerate(inputs)]), plain
            )
        )
    if torch.allclose(plain, subject.to(plain.dtype)):
        return True
    if gradient is None:
        return False
    if _is_passed_on(gradient, weights) and float((plain - subject).norm()) <= NEAR * float(
        subject.norm()
    ):
        # A quantiser whose scale depends on its input: close to the identity, with its gradient.
        return True
    slope = _slope(run, inputs, n, move) / move
    steep = slope.abs() > 1e-3
    if not bool(steep.any()):
        return True
    flat_share = float((~steep).float().mean())
    close = (
        (gradient - slope * weights).abs()
        <= tolerance * (gradient.abs() + (slope * weights).abs()) + 1e-9
    )[steep]
    return flat_share > 0 and bool(close.float().mean() > 0.98)


def _uneven(like: torch.Tensor) -> torch.Tensor:
    """A direction in which each element moves by about one, up or down."""
    generator = torch.Generator().manual_seed(1)
    drawn = torch.rand(like.shape, generator=generator, dtype=like.dtype)
    return torch.where(drawn < 0.5, -1.5, 0.5) + drawn


def _is_passed_on(gradient: torch.Tensor, weights: torch.Tensor) -> bool:
    """Whether backward returns the incoming gradient, fully or masked."""
    return bool(((gradient == weights) | (gradient == 0)).all()) and bool(gradient.any())


def _report(study: Study, call: Call, func: CustomFunction, found: Difference) -> Finding | None:
    position = argument_position(call, found.number)
    wrong, right = (
        [argument_position(call, each) for each in some]
        for some in ((found.number, *found.others), found.right)
    )
    shared = shared_by(func.kind, wrong, right) if found.others else None
    written = shared or gradient_written(func.kind, position)
    spot = Spot.of_node(written[1], written[0]) if written is not None else spot_at(call.site)
    names = parameter_names(func.kind)
    name = names[position] if position < len(names) else f"input {position}"
    returned = "None" if found.is_none else number_text(found.given)
    ratio = found.true / found.given if found.given else None
    factor = (
        f", {number_text(ratio)} times as much" if ratio is not None and abs(ratio) < 1e6 else ""
    )
    return silent_finding(
        study,
        "gradient/wrong-custom",
        spot=spot,
        symptom=Spot.of_site(call.site) if call.site is not None else None,
        step=study.step,
        call=call,
        op=func.__name__,
        verdict=f"{func.__name__}.backward is not the derivative of its forward, for {name}"
        + (f" and {len(found.others)} more" if found.others else ""),
        what=f"along a random direction backward gives {returned}, finite differences give "
        f"{number_text(found.true)}",
        why=f"Along a random direction, backward gives {returned}. Finite differences of the "
        f"forward on this step's inputs give {number_text(found.true)}{factor}.",
        fix="Fix the expression that only the wrong gradients share. Each gradient must be the "
        "derivative of the forward times the incoming gradient; torch.autograd.gradcheck tests "
        "this."
        if shared is not None
        else f"Fix the gradient for {name}: the derivative of the forward times the incoming "
        "gradient. torch.autograd.gradcheck tests this.",
        replay="bit-identical",
        counterfactual=f"finite differences give {number_text(found.true)}, backward gives "
        f"{returned}",
    )
