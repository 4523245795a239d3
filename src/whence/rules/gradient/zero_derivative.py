"""Step functions between weights and the loss: their derivative is zero wherever it exists."""

from __future__ import annotations

import ast

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.rules.gradient.flow import ENOUGH, unmoved_text, weights_text, without_gradient
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of

STEPS = frozenset(
    {"round", "floor", "ceil", "trunc", "fix", "sign", "sgn", "heaviside", "round_", "floor_",
     "ceil_", "sign_", "floor_divide", "__floordiv__"}
)  # fmt: skip


@audit_rule("gradient/zero-derivative", Rank.CALL)
def zero_derivative(audit: Audit) -> Finding | None:
    """The only path to a parameter has a derivative of zero.

    What happened
        A step function (round, sign, floor) is between the weights and the loss. Its derivative is
        zero wherever it exists, so the weights before it receive gradients of exactly zero. Or two
        weights that start at zero are multiplied with each other.
    Why it matters
        The weights never learn. PyTorch does not raise, because zero is the correct derivative.
    How it is detected
        Weights whose gradient is exactly zero in every recorded step, with a step function on their
        path to the loss. Or a product whose factors are zero after the first steps, as are their
        gradients.
    How to fix it
        Use a straight-through estimator (x + (round(x) - x).detach()), or a smooth function.
    When it stays silent
        Where another path leads to the same weights, as in straight-through estimators.
    Cost
        A check of each weight in a few recorded steps.
    """
    if audit.step < ENOUGH:
        return None
    lost = [
        each
        for each in without_gradient(audit)
        if each.weight is not None and each.weight.grad is not None
    ]
    for entry in lost:
        first = entry.call
        assert first is not None
        reached = {id(value) for value in first.operands if value.tensor is entry.weight}
        for call in audit.tape.calls:
            if call.number < first.number or call.step != first.step or call.inner:
                continue
            if not any(id(value) in reached for value in call.operands):
                continue
            if (
                call.name in STEPS
                and call.site is not None
                and call.outputs
                and call.outputs[0].requires_grad
            ):
                names = [each.name or "a weight" for each in lost]
                return silent_finding(
                    audit,
                    "gradient/zero-derivative",
                    spot=Spot.of_site(call.site),
                    step=call.step,
                    call=call,
                    verdict=f"the gradients of {weights_text(names)} are exactly zero: the "
                    f"derivative of {call.name} is zero",
                    what=unmoved_text(names),
                    why=f"{call.name} is flat except at its jumps, so no gradient passes through "
                    "it.",
                    fix=f"Pass the gradient straight through, x + (torch.{call.name}(x) - "
                    "x).detach(), or use a smooth function here.",
                    patch=_straight_through(call.site),
                )
            reached |= {id(value) for value in call.outputs}
    return None


ARITHMETIC = (
    ast.Name,
    ast.Attribute,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.operator,
    ast.unaryop,
    ast.Load,
)


def _straight_through(site: Site) -> str | None:
    """`round(x)` becomes `(x + (round(x) - x).detach())`, if evaluating `x` twice is harmless."""
    match node := site.node():
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch")), args=[given], keywords=[]):
            pass
        case ast.Call(func=ast.Attribute(value=given), args=[], keywords=[]):
            pass
        case _:
            return None
    if not all(isinstance(each, ARITHMETIC) for each in ast.walk(given)):
        return None
    name, whole = in_parentheses(site.filename, given), text_of(site.filename, node)
    return diff_of(replace_node(site.filename, node, f"({name} + ({whole} - {name}).detach())"))
