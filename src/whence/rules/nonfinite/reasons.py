"""Why an operation gave NaN or Inf, read from its operands: what to say, what to advise, and what to try as a cure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from whence.rules.nonfinite.telling import at, number_text, place_text
from whence.tape.tape import Call, Value

Mend = Callable[[Any, Any], tuple[Any, Any]]
TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Reason:
    verdict: str
    why: str
    fix: str
    mend: Mend | None = None
    """Changes the arguments of the call so that it is defined."""
    mending: str = ""
    """The change in words."""
    blames: Callable[[float], bool] = lambda element: element == 0


LOGS = frozenset({"log", "log2", "log10", "log_"})
DIVISIONS = frozenset(
    {"div", "__truediv__", "true_divide", "__itruediv__", "div_", "__rtruediv__", "__rdiv__", "divide", "reciprocal"}
)
ROOTS = frozenset({"sqrt", "rsqrt", "sqrt_"})
POWERS = frozenset({"pow", "__pow__", "pow_", "float_power"})
EXPONENTIALS = frozenset({"exp", "exp_", "expm1", "exp2", "sinh", "cosh"})
ARCS = frozenset({"acos", "arccos", "asin", "arcsin", "atanh", "arctanh", "acos_", "asin_"})
SOFTMAXES = frozenset({"softmax", "log_softmax", "scaled_dot_product_attention", "multi_head_attention_forward"})
SPREADS = frozenset({"std", "var", "std_mean", "var_mean"})
MEANS = frozenset({"mean", "median", "nanmean"})
CLASS_LOSSES = frozenset({"cross_entropy", "nll_loss"})


def _clamped(place: int, low: float | None = None, high: float | None = None) -> Mend:
    def mend(args: Any, kwargs: Any) -> tuple[Any, Any]:
        changed = list(args)
        if place < len(changed) and isinstance(changed[place], torch.Tensor):
            changed[place] = changed[place].clamp(low, high)
        return tuple(changed), kwargs

    return mend


def _off_zero(place: int) -> Mend:
    def mend(args: Any, kwargs: Any) -> tuple[Any, Any]:
        changed = list(args)
        each = changed[place] if place < len(changed) else None
        if isinstance(each, torch.Tensor):
            changed[place] = torch.where(each == 0, torch.full_like(each, 1e-8), each)
        elif each == 0:
            changed[place] = 1e-8
        return tuple(changed), kwargs

    return mend


def reason_of(
    call: Call,
    operands: list[tuple[Value, torch.Tensor]],
    output: torch.Tensor,
    index: tuple[int, ...],
    mask: Value | None,
) -> Reason:
    """The first explanation that the numbers bear out."""
    tensors = [tensor for _, tensor in operands]
    elements = [at(each, index, output.shape) for each in tensors]
    gave = number_text(float(output.detach()[index].item())) if output.numel() else "nothing"
    for explain in (
        _nothing,
        _ignored,
        _single,
        _masked,
        _logarithm,
        _division,
        _root,
        _power,
        _arc,
        _exponential,
        _too_large,
    ):
        reason = explain(call, tensors, elements, output, index, gave, mask)
        if reason is not None:
            return reason
    given = ", ".join(number_text(each) for each in elements if each is not None)
    return Reason(
        verdict=f"{call.name} gave {gave}" + (f" for {given}" if given else " from finite operands"),
        why=f"The operands of {call.name} are finite at {place_text(index)}, and its result is not.",
        fix="Keep the operands of this call in the range where it is defined, before the call.",
        blames=lambda element: abs(element) > 1e18 or element == 0,
    )


def _nothing(
    call: Call, tensors: Any, _elements: Any, output: Any, _index: Any, gave: str, _mask: Any
) -> Reason | None:
    if not tensors or tensors[0].numel() or call.name in ("cat", "stack"):
        return None
    return Reason(
        verdict=f"{call.name} over nothing gave {gave}: its input has no elements",
        why=f"{call.name} was given a tensor of shape {tuple(tensors[0].shape)}: the selection before it is empty.",
        fix="Skip the term when the selection is empty, or divide the sum by `count.clamp(min=1)`.",
        blames=lambda _element: True,
    )


def _ignored(
    call: Call, tensors: Any, _elements: Any, output: Any, _index: Any, gave: str, _mask: Any
) -> Reason | None:
    if call.name not in CLASS_LOSSES or len(tensors) < 2 or tensors[1].is_floating_point():
        return None
    ignored = call.kwargs.get("ignore_index", -100)
    target = tensors[1]
    if not isinstance(ignored, int) or not bool((target == ignored).all()):
        return None
    return Reason(
        verdict=f"all {target.numel()} labels are {ignored}, which {call.name} ignores: the mean over none of them is NaN",
        why=f"{call.name} averages over the labels that are not {ignored}. In this batch there are none.",
        fix="Skip such a batch, or use reduction='sum' and divide by the number of labels, at least 1.",
    )


def _single(call: Call, tensors: Any, _elements: Any, output: Any, _index: Any, gave: str, _mask: Any) -> Reason | None:
    if call.name not in SPREADS or not tensors or tensors[0].numel() > max(output.numel(), 1):
        return None
    return Reason(
        verdict=f"{call.name} of a single element gave {gave}",
        why="The spread of one element, with Bessel's correction, is 0 divided by 0.",
        fix="Skip the normalisation for one element, or pass `correction=0` and add an epsilon to the divisor.",
        blames=lambda _element: True,
    )


def _masked(call: Call, tensors: Any, _elements: Any, output: Any, index: Any, gave: str, mask: Any) -> Reason | None:
    if call.name not in SOFTMAXES:
        return None
    attention = "attention" in call.name
    if call.name in ("softmax", "log_softmax"):
        scores = tensors[0]
        axis = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else -1)
        if not isinstance(axis, int) or not bool((scores.max(dim=axis).values == -torch.inf).any()):
            return None
    elif mask is None and not attention:
        return None
    row = index[:-1] if len(index) > 1 else index
    return Reason(
        verdict=f"{call.name} over a row that is masked as a whole gave {gave}",
        why=f"Every score of row {place_text(row)} is -inf: there is nothing to attend to, and 0 divided by 0 is NaN.",
        fix="Leave at least one position unmasked in each row, or fill with a large negative number and zero the row afterwards.",
    )


def _logarithm(
    call: Call, _tensors: Any, elements: Any, _output: Any, _index: Any, gave: str, _mask: Any
) -> Reason | None:
    if call.name not in LOGS or not elements or elements[0] is None or elements[0] > 0:
        return None
    value = number_text(elements[0])
    return Reason(
        verdict=f"{call.name} of {value} gave {gave}",
        why="The logarithm of 0 is -inf, and that of a negative number is NaN.",
        fix="Compute in the log domain (log_softmax, logsigmoid, logsumexp), or clamp the operand before the log.",
        mend=_clamped(0, low=TINY),
        mending=f"with the operand of {call.name} kept at {TINY:g} or more",
        blames=lambda element: element <= 0,
    )


def _division(call: Call, tensors: Any, elements: Any, output: Any, index: Any, gave: str, _mask: Any) -> Reason | None:
    if call.name not in DIVISIONS:
        return None
    place = 1 if len(call.args) > 1 else 0
    reversed_ = call.name in ("__rtruediv__", "__rdiv__", "reciprocal")
    if reversed_:
        place = 0
    divisor = call.args[place] if place < len(call.args) else call.kwargs.get("other")
    number = None
    if isinstance(divisor, Value) and divisor in call.operands:
        unique = list(dict.fromkeys(call.operands))
        number = elements[unique.index(divisor)] if unique.index(divisor) < len(elements) else None
    elif isinstance(divisor, int | float):
        number = float(divisor)
    if number != 0:
        return None
    other = None if reversed_ else elements[0]
    dividend = number_text(other) if other is not None else "a number"
    where = f" at {place_text(index)}" if index else ""
    return Reason(
        verdict=f"{dividend} divided by 0 gave {gave}{where}",
        why="A number divided by zero is Inf, and zero divided by zero is NaN.",
        fix="Keep the divisor away from zero before the division: `clamp(min=eps)`, or divide only where it is not zero.",
        mend=_off_zero(place),
        mending="with 1e-8 in place of the zero divisor",
    )


def _root(call: Call, _tensors: Any, elements: Any, _output: Any, _index: Any, gave: str, _mask: Any) -> Reason | None:
    if call.name not in ROOTS or not elements or elements[0] is None or elements[0] > 0:
        return None
    return Reason(
        verdict=f"{call.name} of {number_text(elements[0])} gave {gave}",
        why="The square root of a negative number is NaN. A variance computed as E[x²] - E[x]² is often a little below zero.",
        fix="Clamp the operand to a small positive number before the root, or compute the variance with torch.var.",
        mend=_clamped(0, low=TINY),
        mending=f"with the operand of {call.name} kept at {TINY:g} or more",
        blames=lambda element: element <= 0,
    )


def _power(call: Call, _tensors: Any, elements: Any, output: Any, _index: Any, gave: str, _mask: Any) -> Reason | None:
    if call.name not in POWERS or not elements or elements[0] is None or elements[0] > 0:
        return None
    given = [each for each in call.args[1:] if isinstance(each, int | float)]
    exponent = given[0] if given else elements[1] if len(elements) > 1 else None
    shown = f" to the power of {number_text(float(exponent))}" if exponent is not None else ""
    return Reason(
        verdict=f"{number_text(elements[0])}{shown} gave {gave}",
        why="A negative number to a fractional power is NaN; zero to a negative power is Inf.",
        fix="Keep the base positive before the power: `clamp(min=eps)`, or `x.abs() + eps` where the sign does not matter.",
        mend=_clamped(0, low=TINY),
        mending=f"with the base kept at {TINY:g} or more",
        blames=lambda element: element <= 0,
    )


def _arc(call: Call, _tensors: Any, elements: Any, _output: Any, _index: Any, gave: str, _mask: Any) -> Reason | None:
    if call.name not in ARCS or not elements or elements[0] is None or abs(elements[0]) < 1:
        return None
    return Reason(
        verdict=f"{call.name} of {elements[0]:.9g} gave {gave}",
        why=f"{call.name} is defined between -1 and 1. Rounding takes a cosine of parallel vectors a little above 1.",
        fix="Clamp the operand to [-1 + 1e-6, 1 - 1e-6] before the call.",
        mend=_clamped(0, low=-1 + 1e-6, high=1 - 1e-6),
        mending=f"with the operand of {call.name} kept within ±(1 - 1e-6)",
        blames=lambda element: abs(element) >= 1,
    )


def _exponential(
    call: Call, tensors: Any, elements: Any, output: Any, _index: Any, gave: str, _mask: Any
) -> Reason | None:
    if call.name not in EXPONENTIALS or not elements or elements[0] is None or elements[0] < 1:
        return None
    return Reason(
        verdict=f"{call.name} of {number_text(elements[0])} overflowed to {gave}",
        why=f"{call.name} exceeds the largest {str(output.dtype).removeprefix('torch.')} from about 88 on (float16: 11).",
        fix="Subtract the maximum first (softmax, logsumexp do), or clamp the operand before the exponential.",
        mend=_clamped(0, high=20.0),
        mending=f"with the operand of {call.name} kept at 20 or less",
        blames=lambda element: element > 1,
    )


def _too_large(
    call: Call, tensors: Any, elements: Any, output: Any, index: Any, gave: str, _mask: Any
) -> Reason | None:
    floats = [each for each in tensors if each.is_floating_point() and each.numel()]
    if not floats or torch.isnan(output).any():
        return None
    largest = max(float(each.detach().abs().max()) for each in floats)
    if largest < 1e12:
        return None
    return Reason(
        verdict=f"{call.name} overflowed to {gave}: its operands reach {largest:.3g}",
        why=f"Numbers of {largest:.3g} went in. They are the end of an explosion: each step, or each layer, made them larger.",
        fix="Look at what makes the numbers grow: the learning rate, the initialisation, a recurrent product; clip gradients.",
        blames=lambda element: abs(element) > 1e6,
    )
