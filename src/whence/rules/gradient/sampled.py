"""Latent variables that are drawn with sample(), where rsample() is meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.rules.telling import tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.tape import Call, Value

CHOICES = frozenset({"bernoulli", "multinomial", "poisson", "binomial"})
"""Draws that have no derivative, however they are made."""


def drawn_without_way(study: Study) -> Finding | None:
    """A draw from a distribution that weights of this step decide, made without gradients, which goes on into the network.

    A policy draws in this way, too; but then the probability of what was drawn is part of the loss.
    """
    own = {id(each) for group in study.optimizer.param_groups for each in group["params"]}
    for _, call in study.loss_calls():
        if call.grad_mode or not call.outputs or not call.outputs[0].dtype.is_floating_point or call.name in CHOICES:
            continue
        node = call.site.node() if call.site is not None else None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "sample":
            continue
        decided = list(_decided_by(call))
        if not any(
            id(weight.tensor) in own for value in decided for each in ancestors(value) for weight in each.operands
        ):
            continue
        drawn = call.outputs[0]
        if _is_weighed(study, drawn, decided) or not _goes_on(study, drawn, own):
            continue
        assert call.site is not None
        named = node.func.value
        return tell_silent(
            study,
            "gradient/detached",
            spot=Spot.of_site(call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict="sample() passes no gradient on: what decides the distribution learns nothing from what is made of the draw",
            what="the loss is made from the draw, and its probability is no part of the loss",
            why="sample() draws without a graph. rsample() draws the same numbers as a function of the distribution's parameters.",
            fix="Use rsample().",
            patch=diff_of(replace_node(call.site.filename, node.func, f"{ast.unparse(named)}.rsample")),
        )
    return None


def _decided_by(call: Call) -> Iterator[Value]:
    """What the parameters of the distribution were before they were spread out to the shape of the draw."""
    pending = list(call.operands)
    while pending:
        value = pending.pop()
        if value.requires_grad:
            yield value
        elif value.call is not None and not value.call.grad_mode and value.call.site == call.site:
            pending += value.call.operands


def _is_weighed(study: Study, drawn: Value, decided: list[Value]) -> bool:
    """Whether the draw meets the parameters of its distribution again: its probability is asked for."""
    parameters = {id(each) for each in decided}
    return any(
        any(each is drawn for each in call.operands) and any(id(each) in parameters for each in call.operands)
        for call in study.calls
    )


def _goes_on(study: Study, drawn: Value, own: set[int]) -> bool:
    """Whether weights of this step are applied to the draw."""
    reached = {id(drawn)}
    for call in study.calls:
        if any(id(each) in reached for each in call.operands):
            if any(id(each.tensor) in own for each in call.operands):
                return True
            reached |= {id(each) for each in call.outputs}
    return False
