"""Why an operation gave NaN or Inf, derived from its operands: verdict, why and fix."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

from whence.rules.nonfinite.alignments import too_long
from whence.rules.nonfinite.telling import at, number_text, place_text
from whence.rules.operations import CLASS_LOSSES
from whence.tape.tape import Call, Value


@dataclass(frozen=True, slots=True)
class Reason:
    verdict: str
    why: str
    fix: str
    blames: Callable[[float], bool] = lambda element: element == 0


class Facts:
    """The call, its operands, and the first element of its result that is not finite."""

    def __init__(
        self,
        call: Call,
        tensors: list[torch.Tensor],
        output: torch.Tensor,
        index: tuple[int, ...],
        mask: Value | None,
    ) -> None:
        self.call = call
        self.tensors = tensors
        self.output = output
        self.index = index
        self.mask = mask
        self.elements = [at(each, index, output.shape) for each in tensors]
        self.gave = (
            number_text(float(output.detach()[index].item())) if output.numel() else "no elements"
        )


LOGS = frozenset({"log", "log2", "log10", "log_"})
DIVISIONS = frozenset(
    {
        "div",
        "__truediv__",
        "true_divide",
        "__itruediv__",
        "div_",
        "__rtruediv__",
        "__rdiv__",
        "divide",
        "reciprocal",
    }
)
COMPUTES = DIVISIONS | {"mul", "mul_", "add", "add_", "sub", "sub_", "__rsub__", "pow", "__rpow__"}
DIFFERENCES = frozenset(
    {"sub", "sub_", "__sub__", "__isub__", "__rsub__", "add", "add_", "__add__", "__iadd__"}
)
ROOTS = frozenset({"sqrt", "rsqrt", "sqrt_"})
POWERS = frozenset({"pow", "__pow__", "pow_", "float_power"})
EXPONENTIALS = frozenset({"exp", "exp_", "expm1", "exp2", "sinh", "cosh"})
ARCS = frozenset({"acos", "arccos", "asin", "arcsin", "atanh", "arctanh", "acos_", "asin_"})
FINITE_MASK = (
    "Mask with a large negative value (-1e9) instead of -inf: a row of only -inf has no maximum, "
    "and its logsumexp no gradient."
)
SOFTMAXES = frozenset(
    {"softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward"}
)
SPREADS = frozenset({"std", "var", "std_mean", "var_mean"})


def reason_of(facts: Facts) -> Reason:
    """The first explanation that fits the values."""
    for explain in (
        _plain_number, _inputs_freed, _empty, _ignored, _too_long_for_ctc, _single, _masked,
        _logarithm, _near_minus_one, _infinite_difference, _division, _root, _power, _arc,
        _exponential, _too_large,
    ):  # fmt: skip
        reason = explain(facts)
        if reason is not None:
            return reason
    known = [each for each in facts.elements if each is not None]
    values = ", ".join(map(number_text, known))
    state = "finite" if all(map(math.isfinite, known)) else "not NaN"
    return Reason(
        verdict=f"{facts.call.name} gave {facts.gave}"
        + (f" for {values}" if values else " from finite operands"),
        why=f"The operands of {facts.call.name} are {state} at {place_text(facts.index)}, but the "
        f"result is {facts.gave}.",
        fix=f"Keep the operands of {facts.call.name} in the range where it is defined, before the "
        "call.",
        blames=lambda element: abs(element) > 1e18 or element == 0,
    )


ANY_SUSPECT = "negative values, a row of -inf, values that overflow"
SUSPECTS = {
    "div": "a divisor of zero (a standard deviation, a norm, a count)",
    "log": "a zero, or a negative value",
    "sqrt": "a negative value",
    "exp": "values above 88",
    "std": "a single element",
}


def reason_by_what_is_left(call: Call) -> Reason:
    """The reason where some operands were freed, and no value in their place helps."""
    return Reason(
        verdict=f"{call.name} gave NaN or Inf, whatever its freed operands were",
        why=f"Some operands of {call.name} were freed. Whatever value replaces them, the result "
        "is not finite.",
        fix=f"Check the inputs of {call.name} for {_suspects(call.name)}.",
    )


def reason_by_rehearsal(facts: Facts, number: float) -> Reason:
    """The reason where the operands, and everything they were computed from, were freed."""
    shown, divides = number_text(number), facts.call.name in DIVISIONS
    name, made_by = (
        ("the division", "a division by 0")
        if divides
        else (facts.call.name, f"{facts.call.name} of {shown}")
    )
    return Reason(
        verdict=f"the inputs of this step are {facts.gave}, most likely from {made_by}",
        why="The inputs of the step were not kept. Its calls were run again with ordinary values "
        f"in place of function results: only {name} is then not finite, when every value is "
        f"{shown}. Alternatively, the data was {facts.gave} from the start.",
        fix=f"Check the inputs of {name} for {_suspects(facts.call.name)}.",
    )


def _suspects(name: str) -> str:
    return SUSPECTS.get("div" if name in DIVISIONS else name, ANY_SUSPECT)


def bad_number(call: Call) -> float | None:
    """A plain number among the arguments that is NaN or Inf."""
    numbers = (
        [each for each in call.args if isinstance(each, float)] if call.name in COMPUTES else []
    )
    return next((each for each in numbers if not math.isfinite(each)), None)


def _plain_number(facts: Facts) -> Reason | None:
    number = bad_number(facts.call)
    if number is None:
        return None
    return Reason(
        verdict=f"{facts.call.name} receives a Python number that is {number_text(number)} and "
        f"gives {facts.gave}",
        why="The number is a Python float, not a tensor. The tensor operands of "
        f"{facts.call.name} are finite.",
        fix="Check the formula of this number for a division by zero, or a logarithm or power "
        "out of its range.",
        blames=lambda _element: False,
    )


def _inputs_freed(facts: Facts) -> Reason | None:
    if facts.call.args or facts.call.kwargs:
        return None
    return Reason(
        verdict=f"{facts.call.name} is the first call of this step known to have given "
        f"{facts.gave}",
        why=f"The inputs of {facts.call.name} were not kept: it produced the {facts.gave} itself, "
        "or a call shortly before it did.",
        fix=f"Check the inputs of {facts.call.name} for {_suspects(facts.call.name)}.",
    )


def _empty(facts: Facts) -> Reason | None:
    if not facts.tensors or facts.tensors[0].numel() or facts.call.name in ("cat", "stack"):
        return None
    return Reason(
        verdict=f"{facts.call.name} of an empty tensor gave {facts.gave}",
        why=f"{facts.call.name} received a tensor of shape {tuple(facts.tensors[0].shape)}: the "
        "selection before it is empty.",
        fix="Skip the term when the selection is empty, or divide the sum by `count.clamp(min=1)`.",
        blames=lambda _element: True,
    )


def _ignored(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in CLASS_LOSSES
        or len(facts.tensors) < 2
        or facts.tensors[1].is_floating_point()
    ):
        return None
    ignored = facts.call.kwargs.get("ignore_index", -100)
    target = facts.tensors[1]
    if not isinstance(ignored, int) or not bool((target == ignored).all()):
        return None
    return Reason(
        verdict=f"all {target.numel()} labels are {ignored}, the ignore_index of "
        f"{facts.call.name}: the mean is NaN",
        why=f"{facts.call.name} averages over the labels that are not {ignored}. This batch has "
        "none, so it computes 0 / 0.",
        fix="Skip such batches, or use reduction='sum' and divide by the number of labels, at "
        "least 1.",
    )


def _too_long_for_ctc(facts: Facts) -> Reason | None:
    found = too_long(facts.call, facts.tensors) if facts.call.name == "ctc_loss" else None
    if found is None:
        return None
    sample, labels, pairs, steps = found
    repeated = f" plus {pairs} blanks between equal neighbours" if pairs else ""
    return Reason(
        verdict=f"ctc_loss gave {facts.gave}: sample {sample} of the batch needs {labels + pairs} "
        f"input steps for its {labels} labels, but has {steps}",
        why="Each label takes one input step, and equal neighbours need a blank between them: "
        f"{labels} labels{repeated} need {labels + pairs} steps. No alignment fits into {steps}.",
        fix="Drop such samples, or make the input longer (less downsampling). zero_infinity=True "
        "only drops them from the loss.",
        blames=lambda _element: False,
    )


def _single(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in SPREADS
        or not facts.tensors
        or facts.tensors[0].numel() > max(facts.output.numel(), 1)
    ):
        return None
    return Reason(
        verdict=f"{facts.call.name} of a single element gave {facts.gave}",
        why="With Bessel's correction the variance of one element is 0 / 0.",
        fix="Skip the normalisation for a single element, or pass `correction=0` and add an "
        "epsilon to the divisor.",
        blames=lambda _element: True,
    )


def _masked(facts: Facts) -> Reason | None:
    if facts.call.name not in SOFTMAXES:
        return None
    attention = "attention" in facts.call.name
    if facts.call.name in ("softmax", "log_softmax"):
        scores = facts.tensors[0]
        axis = facts.call.kwargs.get("dim", facts.call.args[1] if len(facts.call.args) > 1 else -1)
        if not isinstance(axis, int) or not bool((scores.max(dim=axis).values == -torch.inf).any()):
            return None
    elif facts.mask is None and not attention:
        return None
    row = facts.index[:-1] if len(facts.index) > 1 else facts.index
    return Reason(
        verdict=f"{facts.call.name} over a fully masked row gave {facts.gave}",
        why=f"Every score in row {place_text(row)} is -inf, so the softmax computes 0 / 0, which "
        "is NaN.",
        fix="Leave at least one position unmasked in each row, or mask with a large negative "
        "value and zero the row afterwards.",
    )


def _logarithm(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in LOGS
        or not facts.elements
        or facts.elements[0] is None
        or facts.elements[0] > 0
    ):
        return None
    value = number_text(facts.elements[0])
    return Reason(
        verdict=f"{facts.call.name} of {value} gave {facts.gave}",
        why="The logarithm of 0 is -inf, and the logarithm of a negative value is NaN.",
        fix="Compute in the log domain (log_softmax, logsigmoid, logsumexp), or clamp the "
        "operand before the log.",
        blames=lambda element: element <= 0,
    )


def _near_minus_one(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in ("log1p", "log1p_")
        or facts.elements[0] is None
        or facts.elements[0] > -1
    ):
        return None
    return Reason(
        verdict=f"{facts.call.name} of {number_text(facts.elements[0])} gave {facts.gave}",
        why="log1p(x) is the logarithm of 1 + x: it is -inf at -1 and NaN below.",
        fix="Keep the operand above -1 before the call. For a logit, keep x within [eps, 1 - "
        "eps] before both logarithms.",
        blames=lambda element: element <= -1,
    )


def _infinite_difference(facts: Facts) -> Reason | None:
    """Explain `x - x.max()` over a row of -inf, as in a hand-written logsumexp or softmax."""
    known = [each for each in facts.elements if each is not None]
    if facts.call.name not in DIFFERENCES or len(known) != 2 or not all(map(math.isinf, known)):
        return None
    operands = number_text(known[0]), number_text(known[1])
    return Reason(
        verdict=f"{facts.call.name} of {operands[0]} and {operands[1]} gave NaN",
        why="The difference of two infinite values is NaN. Where a whole row is -inf, its "
        "maximum is -inf too.",
        fix=FINITE_MASK,
        blames=math.isinf,
    )


def _division(facts: Facts) -> Reason | None:
    if facts.call.name not in DIVISIONS:
        return None
    place = 1 if len(facts.call.args) > 1 else 0
    reversed_ = facts.call.name in ("__rtruediv__", "__rdiv__", "reciprocal")
    if reversed_:
        place = 0
    divisor = (
        facts.call.args[place] if place < len(facts.call.args) else facts.call.kwargs.get("other")
    )
    number = None
    if isinstance(divisor, Value) and divisor in facts.call.operands:
        unique = list(dict.fromkeys(facts.call.operands))
        number = (
            facts.elements[unique.index(divisor)]
            if unique.index(divisor) < len(facts.elements)
            else None
        )
    elif isinstance(divisor, int | float):
        number = float(divisor)
    if number != 0:
        return None
    whole = facts.call.args[0] if facts.call.args else None
    other = facts.elements[0] if not reversed_ and facts.call.operands[:1] == (whole,) else None
    dividend = number_text(other) if other is not None else "a number"
    where = f" at {place_text(facts.index)}" if facts.index else ""
    return Reason(
        verdict=f"{dividend} divided by 0 gave {facts.gave}{where}",
        why="A nonzero value divided by zero is Inf, and zero divided by zero is NaN.",
        fix="Keep the divisor away from zero before the division: `clamp(min=eps)`, or divide "
        "only where it is not zero.",
    )


def _root(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in ROOTS
        or not facts.elements
        or facts.elements[0] is None
        or facts.elements[0] > 0
    ):
        return None
    return Reason(
        verdict=f"{facts.call.name} of {number_text(facts.elements[0])} gave {facts.gave}",
        why="The square root of a negative value is NaN, and 1 / sqrt(0) is Inf. A variance "
        "computed as E[x²] - E[x]² can be slightly negative.",
        fix="Clamp the operand to a small positive value before the root, or compute the "
        "variance with torch.var.",
        blames=lambda element: element <= 0,
    )


def _power(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in POWERS
        or not facts.elements
        or facts.elements[0] is None
        or facts.elements[0] > 0
    ):
        return None
    given = [each for each in facts.call.args[1:] if isinstance(each, int | float)]
    exponent = given[0] if given else facts.elements[1] if len(facts.elements) > 1 else None
    shown = f" to the power of {number_text(float(exponent))}" if exponent is not None else ""
    return Reason(
        verdict=f"{number_text(facts.elements[0])}{shown} gave {facts.gave}",
        why="A negative value to a fractional power is NaN; zero to a negative power is Inf.",
        fix="Keep the base positive before the power: `clamp(min=eps)`, or `x.abs() + eps` where "
        "the sign does not matter.",
        blames=lambda element: element <= 0,
    )


def _arc(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in ARCS
        or not facts.elements
        or facts.elements[0] is None
        or abs(facts.elements[0]) < 1
    ):
        return None
    return Reason(
        verdict=f"{facts.call.name} of {facts.elements[0]:.9g} gave {facts.gave}",
        why=f"{facts.call.name} is defined between -1 and 1. Rounding can push the cosine of "
        "parallel vectors slightly above 1.",
        fix="Clamp the operand to [-1 + 1e-6, 1 - 1e-6] before the call.",
        blames=lambda element: abs(element) >= 1,
    )


def _exponential(facts: Facts) -> Reason | None:
    if (
        facts.call.name not in EXPONENTIALS
        or not facts.elements
        or facts.elements[0] is None
        or facts.elements[0] < 1
    ):
        return None
    return Reason(
        verdict=f"{facts.call.name} of {number_text(facts.elements[0])} overflowed to {facts.gave}",
        why=f"{facts.call.name} exceeds the largest "
        f"{str(facts.output.dtype).removeprefix('torch.')} from about 88 on (float16: 11).",
        fix="Subtract the maximum first (as softmax and logsumexp do), or clamp the operand "
        "before the exponential.",
        blames=lambda element: element > 1,
    )


def _too_large(facts: Facts) -> Reason | None:
    floats = [each for each in facts.tensors if each.is_floating_point() and each.numel()]
    if not floats or torch.isnan(facts.output).any():
        return None
    largest = max(float(each.detach().abs().max()) for each in floats)
    if largest < 1e12:
        return None
    return Reason(
        verdict=f"{facts.call.name} overflowed to {facts.gave}: its operands reach {largest:.3g}",
        why=f"The operands reach {largest:.3g}. Values of this size usually grow over several "
        "steps or layers before they overflow.",
        fix="Find what makes the values grow: the learning rate, the initialisation, a recurrent "
        "product. Clip the gradients.",
        blames=lambda element: abs(element) > 1e6,
    )
