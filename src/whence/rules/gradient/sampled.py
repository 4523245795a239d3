"""Latent variables drawn with `sample()` where `rsample()` is needed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.rules.telling import silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.tape import Call, Value

CHOICES = frozenset({"bernoulli", "multinomial", "poisson", "binomial"})
"""Draws without a derivative, however they are made."""


def blocked_by_sample(study: Study) -> Finding | None:
    """Report a draw without gradients, from a learned distribution, that feeds the network.

    A policy draws in this way too, but then the log probability of the draw is part of the loss.
    """
    own = {id(each) for group in study.optimizer.param_groups for each in group["params"]}
    for _, call in study.loss_calls():
        if (
            call.grad_mode
            or not call.outputs
            or not call.outputs[0].dtype.is_floating_point
            or call.name in CHOICES
        ):
            continue
        method = _method_called(call)
        if method is None or method.attr != "sample" or _goes_on_within(study, call):
            continue
        decided = list(_decided_by(call))
        if not any(
            id(weight.tensor) in own
            for value in decided
            for each in ancestors(value)
            for weight in each.operands
        ):
            continue
        drawn = call.outputs[0]
        if _is_weighed(study, drawn, decided) or not _goes_on(study, drawn, own):
            continue
        assert call.site is not None
        return silent_finding(
            study,
            "gradient/detached",
            spot=Spot.of_site(call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict="sample() blocks the gradient: the distribution's parameters learn nothing "
            "from this draw",
            what="the loss depends on the draw, but not on its log probability",
            why="sample() draws without a graph. rsample() draws the same values as a function "
            "of the distribution's parameters.",
            fix="Use rsample() here.",
            patch=diff_of(
                replace_node(call.site.filename, method, f"{ast.unparse(method.value)}.rsample")
            ),
        )
    return None


def _decided_by(call: Call) -> Iterator[Value]:
    """The distribution's parameters before they were expanded to the shape of the draw."""
    pending = list(call.operands)
    while pending:
        value = pending.pop()
        if value.call is not None and not value.call.grad_mode and value.call.site == call.site:
            pending += value.call.operands
        elif value.requires_grad:
            yield value


def _method_called(call: Call) -> ast.Attribute | None:
    """The method that the program calls on this line: `q.sample`."""
    node = call.site.node() if call.site is not None else None
    return (
        node.func if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    )


def _goes_on_within(study: Study, call: Call) -> bool:
    """Whether the same method call computes more from this result."""
    return any(each.site == call.site and call.outputs[0] in each.operands for each in study.calls)


def _is_weighed(study: Study, drawn: Value, decided: list[Value]) -> bool:
    """Whether log_prob of the draw is computed, or the draw meets the parameters again."""
    parameters = {id(each) for each in decided}
    for call in study.calls:
        if drawn in call.operands:
            method = _method_called(call)
            if any(id(each) in parameters for each in call.operands) or (
                method is not None and method.attr == "log_prob"
            ):
                return True
    return False


def _goes_on(study: Study, drawn: Value, own: set[int]) -> bool:
    """Whether weights of this step are applied to the draw."""
    reached = {id(drawn)}
    for call in study.calls:
        if any(id(each) in reached for each in call.operands):
            if any(id(each.tensor) in own for each in call.operands):
                return True
            reached |= {id(each) for each in call.outputs}
    return False
