"""The KL divergence from the standard normal, recognised by its value: it must not be maximised."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from itertools import combinations

import torch

from whence.finding import Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.lineage.dependence import slope
from whence.rules.nonfinite.telling import number_text
from whence.rules.telling import place_of, silent_finding, spot_at
from whence.source.edits import diff_of, insert_before, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.tape import Call, Value

SQUARES = frozenset({"pow", "__pow__", "square", "mul", "__mul__"})
EQUAL = 1e-4
DIFFERENCES = frozenset({"sub", "__sub__", "__isub__"})
LINEAR = DIFFERENCES | {
    "add",
    "__add__",
    "__radd__",
    "__iadd__",
    "mul",
    "__mul__",
    "__rmul__",
    "div",
    "__truediv__",
    "mean",
    "sum",
}


def divergence_maximised(study: Study) -> Finding | None:
    """Find a term that equals the divergence, or its negative, and is driven up by the loss."""
    for loss in study.losses:
        for exact in _divergences(study, loss):
            call, sign = _made(study, loss, exact) or (None, 0)
            if call is None or study.run is None:
                continue
            push = slope(study.run, loss.value, call.outputs[0])
            if push is None or float(push) * sign >= 0:
                continue
            if sign > 0:
                taken = _subtraction(study, loss, call)
                return _report_subtracted(study, loss, call, taken) if taken is not None else None
            if not _only_linear(study, loss, call):
                continue
            spot, number = place_of(call, study), study.content(call.outputs[0])
            return silent_finding(
                study,
                "loss/sign",
                spot=spot,
                symptom=spot_at(loss.call.site),
                call=call,
                step=study.step,
                severity=Severity.WARNING,
                verdict="the KL divergence is maximised: its negative is part of the loss",
                what="the term is "
                f"{number_text(float(number.detach())) if number is not None else 'below zero'}, "
                "but a divergence is never negative",
                why="The loss contains 1 + log(variance) - mean^2 - variance, which is minus "
                "twice the KL divergence from the standard normal. Minimising it makes means and "
                "variances grow without bound.",
                fix="Add the divergence to the loss: -0.5 * sum(1 + log_variance - mean^2 - "
                "exp(log_variance)).",
                patch=_negated(spot),
                replay="bit-identical",
                counterfactual="the divergence, computed from mean and variance, is the same "
                "value with the opposite sign",
            )
    return None


def _divergences(study: Study, loss: Loss) -> Iterator[torch.Tensor]:
    """The divergence for each pair of a squared mean and an exponentiated log variance."""
    path = study.path(loss.value)
    logarithms = [each.operands[0] for each in path if each.name == "exp" and _is_learnt(each)]
    means = [
        each.operands[0]
        for each in path
        if each.name in SQUARES and _is_learnt(each) and _squares(each)
    ]
    pairs = {
        (mean, logarithm)
        for logarithm in logarithms
        for mean in means
        if mean.shape == logarithm.shape
    }
    run = study.run if pairs else None
    for mean, logarithm in pairs if run is not None else ():
        if (
            run is None
            or mean is logarithm
            or mean not in run.contents
            or logarithm not in run.contents
        ):
            continue
        middle, wide = (
            run.contents[mean].detach().double(),
            run.contents[logarithm].detach().double(),
        )
        # The argument of exp is the logarithm of the variance or of the standard deviation.
        for variance in (wide, 2 * wide):
            yield 0.5 * (middle.square() + variance.exp() - 1 - variance)


def _is_learnt(call: Call) -> bool:
    return (
        not call.inner
        and bool(call.operands)
        and call.operands[0].requires_grad
        and len(call.operands[0].shape) > 1
    )


def _squares(call: Call) -> bool:
    if call.name in ("mul", "__mul__"):
        return len(call.args) == 2 and call.args[0] is call.args[1]
    return call.name == "square" or (len(call.args) > 1 and call.args[1] == 2)


def _made(study: Study, loss: Loss, exact: torch.Tensor) -> tuple[Call, int] | None:
    """The last call that gives the divergence, summed or averaged, and its sign."""
    whole, run = float(exact.sum()), study.run
    axes = [each for each in exact.shape if each > 1]
    counts = {
        math.prod(each) for length in range(len(axes) + 1) for each in combinations(axes, length)
    }
    if run is None or not math.isfinite(whole) or whole <= 0:
        return None
    for call in reversed(study.path(loss.value)):
        value: Value | None = call.outputs[0] if call.outputs and not call.inner else None
        made = run.contents.get(value) if value is not None and not value.shape else None
        number = float(made.detach()) if made is not None else 0.0
        if any(math.isclose(abs(number), whole / count, rel_tol=EQUAL) for count in counts):
            return call, 1 if number > 0 else -1
    return None


def _only_linear(study: Study, loss: Loss, made: Call) -> bool:
    """Whether it enters the loss linearly; `abs(kl - capacity)` has no direction."""
    reached = {*made.outputs}
    for call in study.path(loss.value):
        if call.number > made.number and reached.intersection(call.operands):
            if call.name not in LINEAR:
                return False
            reached.update(call.outputs)
    return True


def _subtraction(study: Study, loss: Loss, made: Call) -> Call | None:
    """The subtraction that removes it from the loss; `abs(kl - capacity)` does not count."""
    reached, found = {*made.outputs}, None
    for call in study.path(loss.value):
        if call.number <= made.number or not reached.intersection(call.operands):
            continue
        if call.name not in LINEAR:
            return None
        if call.name in DIFFERENCES and len(call.operands) > 1 and call.operands[1] in reached:
            found = call
        reached.update(call.outputs)
    return found


def _report_subtracted(study: Study, loss: Loss, made: Call, taken: Call) -> Finding | None:
    number = study.content(made.outputs[0])
    spot = spot_at(taken.site)
    match node := spot.node() if spot is not None else None:
        case ast.BinOp(op=ast.Sub(), left=ast.expr(), right=ast.expr()) if spot is not None:
            text = f"{text_of(spot.filename, node.left)} + {text_of(spot.filename, node.right)}"
            patch = diff_of(replace_node(spot.filename, node, text))
        case _:
            patch = None
    return silent_finding(
        study,
        "loss/sign",
        spot=spot,
        symptom=spot_at(loss.call.site),
        call=taken,
        step=study.step,
        severity=Severity.WARNING,
        verdict="the KL divergence is maximised: it is subtracted from the loss",
        what="the divergence is "
        f"{number_text(float(number.detach())) if number is not None else 'above zero'}, and the "
        "loss falls as it rises",
        why="Minimising the loss makes the divergence from the standard normal larger. Means and "
        "variances grow without bound.",
        fix="Add the divergence to the loss instead of subtracting it.",
        patch=patch,
        replay="bit-identical",
        counterfactual="the divergence, computed from mean and variance, is the same value",
    )


def _negated(spot: Spot | None) -> str | None:
    match spot.node() if spot is not None else None:
        case (
            ast.BinOp(op=ast.Mult() | ast.Div()) | ast.Call() | ast.Name() | ast.Attribute()
        ) as node if spot is not None:
            return diff_of(insert_before(spot.filename, node, "-"))
    return None
