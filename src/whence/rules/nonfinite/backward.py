"""A finite loss with a gradient that is NaN or Inf."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from whence.finding import Finding, Hop, Operand
from whence.lineage.births import Contents, contents_before, find_birth, first_bad
from whence.lineage.gradients import GradientWatch, line_inside
from whence.lineage.properties import HALVES, NotFinite
from whence.lineage.rows import blamed_rows
from whence.lineage.trail import trace
from whence.rules.loss.endless import fell_without_bound
from whence.rules.nonfinite.naming import operand_name
from whence.rules.nonfinite.reasons import DIVISIONS, FINITE_MASK, Facts, Reason, reason_of
from whence.rules.nonfinite.remedies import is_same_line, nonzero_divisor, remedy_for
from whence.rules.nonfinite.telling import (
    at,
    module_path,
    number_text,
    place_text,
    trip_finding,
    trouble_text,
)
from whence.rules.rule import trip_rule
from whence.rules.telling import describe
from whence.source.spots import Spot
from whence.tape.replay import Run, Unreplayable, trouble_in
from whence.tape.tape import Call, Value, map_leaves
from whence.tape.trip import Born, GradientBirth, ScaleFall, Trip

SELECTIONS = frozenset({"where", "masked_fill", "masked_fill_", "__getitem__", "index_select",
                        "masked_select", "gather", "nan_to_num"})  # fmt: skip
LINEAR = frozenset(
    {
        "linear",
        "matmul",
        "__matmul__",
        "mm",
        "bmm",
        "addmm",
        "baddbmm",
        "einsum",
        "conv1d",
        "conv2d",
        "conv3d",
    }
)
PRODUCTS = frozenset({"__mul__", "mul", "__rmul__", "mul_", "__imul__"})
SAFE = 0.5


@dataclass(slots=True)
class Derivative:
    """The call whose derivative is not finite, and the operand where it is evaluated."""

    trip: Trip
    birth: GradientBirth
    call: Call
    operand: Value | None
    content: torch.Tensor | None
    element: float | None
    incoming: float | None


def _derivative(trip: Trip) -> Derivative | None:
    birth = trip.gradient
    if birth is None or birth.call is None or trip.run is None:
        return None
    call = birth.call
    contents = contents_before(trip, call)
    alike = [
        each
        for each in call.operands
        if each.shape == tuple(birth.gradient.shape) and each.dtype.is_floating_point
    ]
    operand = next((each for each in alike if each.requires_grad), alike[0] if alike else None)
    divisor = _zero_divisor(call, contents, birth)
    operand = divisor or operand
    content = contents.of(operand) if operand is not None else None
    element = at(content, birth.index, birth.gradient.shape) if content is not None else None
    incoming = None
    for each in birth.incoming:
        if each is not None and incoming is None:
            incoming = at(each, birth.index[: each.dim()], each.shape)
    return Derivative(trip, birth, call, operand, content, element, incoming)


def _zero_divisor(call: Call, contents: Contents, birth: GradientBirth) -> Value | None:
    """Return the divisor if it is 0 at the bad element, whichever operand the gradient is for."""
    divisor = call.args[1] if call.name in DIVISIONS and len(call.args) > 1 else None
    content = contents.of(divisor) if isinstance(divisor, Value) else None
    is_zero = content is not None and at(content, birth.index, birth.gradient.shape) == 0
    return divisor if isinstance(divisor, Value) and is_zero else None


def _guard(found: Derivative) -> Call | None:
    """Find the selection after the call that masks the element in the loss but not in the gradient.

    Return None if any path to the loss avoids selections.
    """
    if found.incoming != 0 or found.trip.plan is None:
        return None
    guard: Call | None = None
    reached = set(found.call.outputs)
    contents = Contents(found.trip.tape, found.trip.run)
    for call in found.trip.plan.calls:
        if call.number <= found.call.number or not reached.intersection(call.operands):
            continue
        if call.name in SELECTIONS or (
            call.name in PRODUCTS and _is_masked(call, reached, found.birth.index, contents)
        ):
            guard = guard or call
        else:
            reached.update(call.outputs)
    return guard if found.trip.target not in reached else None


def _is_masked(
    product: Call, reached: set[Value], index: tuple[int, ...], contents: Contents
) -> bool:
    """Whether the other factor, and with it the product, is 0 at the index."""
    factors = [
        content
        for each in product.operands
        if each not in reached and (content := contents.of(each)) is not None
    ]
    made = contents.of(product.outputs[-1]) if product.outputs else None
    if made is None or not factors:
        return False
    there = index[: made.dim()]
    if len(there) < made.dim() or any(
        place >= size for place, size in zip(there, made.shape, strict=True)
    ):
        return any(bool((each == 0).any()) for each in factors)
    return at(made, there, made.shape) == 0 and any(
        at(each, there, made.shape) == 0 for each in factors
    )


def _hidden(found: Derivative, op: str, where: str) -> str | None:
    """Describe the call's own result at the bad element, if that was not finite."""
    call, index, contents = found.call, found.birth.index, Contents(found.trip.tape, found.trip.run)
    made = contents.of(call.outputs[-1]) if call.outputs else None
    if made is None or made.shape != found.birth.gradient.shape:
        return None
    value = at(made, index, made.shape)
    if value is None or math.isfinite(value):
        return None
    if len(call.operands) == 1:
        return f"{op} of {where} gave {number_text(value)}"
    operands = dict.fromkeys(call.operands)
    tensors = [each for operand in operands if (each := contents.of(operand)) is not None]
    is_division = call.name in DIVISIONS and found.element == 0 and len(tensors) == len(operands)
    return reason_of(Facts(call, tensors, made, index, None)).verdict if is_division else None


def _overflowing(birth: GradientBirth) -> float | None:
    """The largest incoming gradient, if it is finite but its square overflows."""
    largest = max(
        (float(each.abs().max()) for each in birth.incoming if each is not None and each.numel()),
        default=0.0,
    )
    return largest if largest > math.sqrt(torch.finfo(birth.gradient.dtype).max) else None


def _huge_factor(found: Derivative) -> tuple[Value, float] | None:
    """Return the other factor of a product, if it or its square is not finite."""
    if found.call.name not in LINEAR | PRODUCTS:
        return None
    contents = Contents(found.trip.tape, found.trip.run)
    others = [each for each in found.call.operands if each is not found.operand]
    known = [
        (each, content)
        for each in others
        if (content := contents.of(each)) is not None and content.numel()
    ]
    sizes = [
        (each, float(content.detach().abs().nan_to_num(math.inf).max()))
        for each, content in known
        if content.is_floating_point()
    ]
    top = math.sqrt(torch.finfo(found.birth.gradient.dtype).max)
    each, largest = max(sizes, key=lambda pair: pair[1], default=(None, 0.0))
    return (each, largest) if each is not None and largest > top else None


def _cures(found: Derivative) -> Iterator[tuple[str, dict[str, Any]]]:
    """Changes to try: move the operand off the point where the derivative is undefined."""
    content, operand = found.content, found.operand
    if content is None or operand is None or found.element is None:
        return
    element = found.element
    call = found.call

    def moved(to: float) -> Any:
        def alter(each: Call, args: Any, kwargs: Any) -> tuple[Any, Any]:
            if not is_same_line(each, call):
                return args, kwargs
            place = call.operands.index(operand)
            seen = -1

            def change(thing: Any) -> Any:
                nonlocal seen
                if isinstance(thing, torch.Tensor):
                    seen += 1
                    if seen == place:
                        same = (thing == element) | ~torch.isfinite(thing)
                        return torch.where(same, torch.full_like(thing, to), thing)
                return thing

            return map_leaves(change, args), map_leaves(change, kwargs)

        return alter

    for to in (1e-6, SAFE) if element != -math.inf else (-1e9, -1e4):
        near = (
            element + (to if element < 1 else -to)
            if element == element and abs(element) < 1e6
            else to
        )
        shown = f"{near:.7g}" if number_text(near) == number_text(element) else number_text(near)
        yield (
            f"with {shown} instead of {number_text(element)} as the operand of {call.name}",
            {"alter": moved(near)},
        )


def _patched(found: Derivative) -> str | None:
    """Return a clamp as a diff, if all gradients are finite with it."""
    contents = Contents(found.trip.tape, found.trip.run)
    tensors = [each for value in found.call.operands if (each := contents.of(value)) is not None]
    remedy = remedy_for(found.call, tensors)
    patch = remedy.patch(found.call) if remedy is not None else None
    if (
        patch is None
        or remedy is None
        or not _gradients_finite(found.trip, alter=remedy.alter(found.call))
    ):
        return None
    return patch


def _gradients_finite(trip: Trip, **changes: Any) -> bool:
    watch = GradientWatch()
    try:
        run = trip.again(at_backward=watch, **changes)
    except (Unreplayable, RuntimeError):
        return False
    return run.raised is None and watch.find(run) is None


def _counterfactual(found: Derivative) -> str | None:
    return next(
        (
            f"{words}, all gradients are finite"
            for words, changes in _cures(found)
            if _gradients_finite(found.trip, **changes)
        ),
        None,
    )


def _made_before(found: Derivative) -> tuple[Born, Call, Reason] | None:
    """If the operand was already NaN, which the loss hides: the call that produced it, and why."""
    trip, plan = found.trip, found.trip.plan
    if (
        found.element is None
        or found.operand is None
        or plan is None
        or not math.isnan(found.element)
    ):
        return None
    contents = Contents(trip.tape, trip.run)
    born = find_birth(found.operand, contents, lambda each: each.call not in plan.calls)
    output = contents.of(born.output) if born.output is not None else None
    if born.call is None or born.call.site is None or output is None:
        return None
    tensors = [
        each
        for value in dict.fromkeys(born.call.operands)
        if (each := contents.of(value)) is not None
    ]
    facts = Facts(born.call, tensors, output, first_bad(output, born.trouble), born.mask)
    return born, born.call, reason_of(facts)


def _report_made_before(trip: Trip, born: Born, call: Call, reason: Reason) -> Finding | None:
    assert call.site is not None
    # The reproduction script is built around this call.
    trip.born, trip.gradient = born, None
    return trip_finding(
        trip,
        "nonfinite/backward",
        spot=Spot.of_site(call.site),
        verdict=f"{reason.verdict}; masked in the loss but not in the gradient",
        why=f"{reason.why} Later calls drop this element, so the loss is finite. Its incoming "
        "gradient is 0, and 0 times NaN is NaN.",
        fix=f"{reason.fix} A selection after {call.name} does not stop the gradient.",
        op=call.name,
        phase="backward",
        module=module_path(trip, call),
    )


@trip_rule("nonfinite/backward")
def backward(trip: Trip) -> Finding | None:
    """The loss is finite, but the gradient of a weight is NaN or Inf.

    What happened
        The result of an operation is finite or masked, but its derivative is not finite: sqrt and
        norm at 0, acos at 1, log or a division whose result `torch.where` or a mask discards. The
        chain rule multiplies: 0 times Inf is NaN.
    Why it matters
        The loss looks healthy. The update turns the weights into NaN, and then the next loss.
    How it is detected
        Gradients are checked before an optimizer uses them. The step is replayed, forward and
        backward, with a check at every node of the autograd graph. Whence reports the node on the
        path to a weight whose incoming gradients are finite and whose outgoing gradients are not.
    How to fix it
        Keep the operand off the critical point before the operation: an epsilon inside the root, or
        a clamp. For a guarded expression, insert a harmless value before the operation and select
        afterwards. A mask after the operation does not help.
    When it stays silent
        For NaN gradients that reach no weight (a ReLU drops them), and for steps that are not
        taken.
    Cost
        One check of the gradients per step; everything else runs only after a gradient is not
        finite.
    """
    found = _derivative(trip)
    if found is None:
        return None
    if found.birth.gradient.dtype in HALVES and not isinstance(trip.evidence, ScaleFall):
        # Scaled losses overflow in half precision. The error is then to take the step.
        return None
    if (fallen := fell_without_bound(trip)) is not None:
        return fallen
    if (made := _made_before(found)) is not None:
        return _report_made_before(trip, *made)
    call, birth = found.call, found.birth
    inside = line_inside(trip, call)
    op, spot = (
        inside[:2]
        if inside is not None
        else (call.name, Spot.of_site(call.site) if call.site else None)
    )
    where = number_text(found.element) if found.element is not None else "this operand"
    story = _story(trip, found, op, where)
    if inside is not None:
        story.verdict = f"the backward of {call.name} gave {trouble_text(birth.trouble)} in {op}"
    rows = (
        blamed_rows(trip, ~torch.isfinite(birth.gradient), _finite_again)
        if birth.gradient.dim()
        else None
    )
    counterfactual = _counterfactual(found)
    if rows is not None:
        cured = f"{rows.text()}, all gradients are finite"
        counterfactual = f"{cured}; {counterfactual}" if counterfactual else cured
    operands: tuple[Operand, ...] = ()
    if found.operand is not None and found.content is not None:
        shown = describe(found.content) + f"  at {place_text(birth.index)}: {where}"
        operands = (Operand(operand_name(call, found.operand, trip.modules), shown),)
    earlier = found.operand.call if found.operand is not None else None
    if earlier is not None and earlier.site is not None:
        story.chain = (
            Spot.of_site(earlier.site).hop(f"{earlier.name} gave {where} at that element"),
            *story.chain,
        )
    return trip_finding(
        trip,
        "nonfinite/backward",
        spot=story.spot or spot,
        verdict=story.verdict,
        why=story.why,
        fix=story.fix,
        op=op,
        phase="backward",
        module=module_path(trip, call),
        sample=rows.sample() if rows is not None else None,
        chain=story.chain,
        operands=operands,
        patch=_patched(found)
        if inside is None
        else nonzero_divisor(spot)
        if inside.by_zero
        else None,
        counterfactual=counterfactual,
    )


@dataclass(slots=True)
class _Story:
    """How a derivative became NaN or Inf."""

    verdict: str
    why: str
    fix: str
    chain: tuple[Hop, ...] = ()
    spot: Spot | None = None
    """The origin, if it is not the call itself."""


def _story(trip: Trip, found: Derivative, op: str, where: str) -> _Story:
    birth, trouble = found.birth, trouble_text(found.birth.trouble)
    value = _hidden(found, op, where)
    verdict = f"the derivative of {op} at {where} is {trouble}"
    if value is not None:
        verdict = f"{value}; masked in the loss but not in the gradient"
    why = (
        f"The loss is finite, but the gradient of the operand of {op} is {trouble} at "
        f"{place_text(birth.index)}."
    )
    guard = _guard(found)
    if guard is not None and guard.site is not None:
        return _hidden_by(guard, Spot.of_site(guard.site), op, verdict, why)
    if (largest := _overflowing(birth)) is not None:
        return _Story(
            f"the gradient overflowed in the backward of {op}",
            f"The loss is finite. The gradient entering the backward of {op} reaches "
            f"{number_text(largest)}, and the outgoing gradient is {trouble}.",
            "Stop the gradient from growing from call to call: use a smaller or orthogonal "
            "initialisation, a normalisation between the layers, or cut the path with `detach`.",
        )
    if (huge := _huge_factor(found)) is not None:
        return _multiplied(trip, found, op, *huge)
    if found.incoming == 0 and birth.trouble == "nan":
        why += " The incoming gradient is 0 there, and 0 times Inf is NaN."
    what = "divisor" if op in DIVISIONS and found.element == 0 else f"operand of {op}"
    point = number_text(found.element) if found.element is not None else "that value"
    fix = f"Keep the {what} away from {point} before the call: add an epsilon to it, or clamp it."
    return _Story(
        verdict, why, FINITE_MASK if found.element == -math.inf and "logsumexp" in op else fix
    )


def _hidden_by(guard: Call, spot: Spot, op: str, verdict: str, why: str) -> _Story:
    """Explain a selection that comes after the call, which is too late for its gradient."""
    return _Story(
        verdict,
        f"{why} {guard.name} discards the element afterwards, so its incoming gradient is 0, and "
        "0 times Inf is NaN.",
        f"Insert a harmless value before {op} (`safe = torch.where(ok, x, 1.0)`), then select: "
        f"`torch.where(ok, {op}(safe), ...)`. A mask after {op} does not stop the gradient.",
        (spot.hop(f"{guard.name} masks that element in the loss, not in the gradient"),),
    )


def _multiplied(trip: Trip, found: Derivative, op: str, factor: Value, largest: float) -> _Story:
    """Explain a backward that multiplies by an operand that is far too large, or not finite."""
    name = operand_name(found.call, factor, trip.modules)
    if math.isinf(largest):
        trail = trace(factor, NotFinite(trip.tape), trip)
        return _Story(
            f"{op} receives NaN or Inf in {name}; masked in the loss but not in the gradient",
            "The loss does not depend on the bad elements of the result, so it is finite. The "
            f"backward of {op} still multiplies by {name}.",
            f"Fix {name} where it is computed: memory that was never written, or a value that "
            "overflowed.",
            trail.hops,
            trail.spot,
        )
    dtype = str(found.birth.gradient.dtype).removeprefix("torch.")
    return _Story(
        f"the gradient overflowed in the backward of {op}: {name} reaches {number_text(largest)}",
        f"The loss is finite. The backward of {op} multiplies by {name}, and the products exceed "
        f"the range of {dtype}.",
        f"Scale {name} to an ordinary range where it is computed.",
    )


def _finite_again(run: Run) -> bool:
    """Whether the weights of a run have finite gradients."""
    gradients = [each.grad for each in run.leaves.values() if each.grad is not None]
    return bool(gradients) and not any(trouble_in(each) for each in gradients)
