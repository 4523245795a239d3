"""A `torch.distributions` parameter out of its range: a scale of 0, a probability of 1.2."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.distributions import Distribution, constraints

from whence.finding import Finding, Operand
from whence.lineage.ancestry import origin_call
from whence.rules.refusals import refusing
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding
from whence.source.spots import Spot
from whence.tape.failed import FailedCall


@rule("nonfinite/forward")
def out_of_range(failed: FailedCall) -> Finding | None:
    names = refusing(failed, Distribution, "__init__")
    if names is None:
        return None
    value, constraint, name = names.get("value"), names.get("constraint"), names.get("param")
    # Non-finite values have another cause, which another rule reports.
    if (
        not isinstance(value, torch.Tensor)
        or value.is_meta
        or not bool(torch.isfinite(value).all())
    ):
        return None
    if not isinstance(constraint, constraints.Constraint) or bool(_valid(constraint, value).all()):
        return None
    made = origin_call(failed.value(value))
    spot = Spot.of_site(made.site) if made is not None and made.site is not None else None
    kind = type(names["self"]).__name__
    allowed, fix = _wanted(constraint)
    return failure_finding(
        failed,
        "nonfinite/forward",
        verdict=f"{kind}'s {name} must be {allowed}, got {_bad(value, constraint)}"
        + (f" from {made.name}" if made is not None else ""),
        spot=spot,
        why=f"With this {name} the density of {kind} is not finite or not defined. {kind} "
        "validates its arguments before it uses them.",
        fix=fix,
        operands=(Operand(str(name), describe(value)),),
    )


def _valid(constraint: constraints.Constraint, value: torch.Tensor) -> torch.Tensor:
    check: Callable[[torch.Tensor], torch.Tensor] = constraint.check
    return check(value)


def _bad(value: torch.Tensor, constraint: constraints.Constraint) -> str:
    """The first value that violates the constraint."""
    valid = _valid(constraint, value)
    rows = (
        value[~valid].reshape(-1)
        if valid.shape == value.shape[: valid.dim()]
        else value.reshape(-1)
    )
    return f"{float(rows[0]):.4g}"


def _wanted(constraint: constraints.Constraint) -> tuple[str, str]:
    """The range in words, and a way to keep values inside."""
    below = getattr(constraint, "lower_bound", None)
    above = getattr(constraint, "upper_bound", None)
    if below is not None and above is not None:
        return (
            f"from {below:g} to {above:g}",
            "Apply a sigmoid or softmax, or pass logits to the distribution instead.",
        )
    if below is not None:
        strictly = isinstance(constraint, constraints.greater_than)
        return (
            f"{'above' if strictly else 'at least'} {below:g}",
            "Make it positive where it is computed: softplus(x) + 1e-6, or exp of a predicted "
            "logarithm.",
        )
    if isinstance(constraint, type(constraints.simplex)):
        return (
            "probabilities that sum to 1",
            "Apply a softmax, or pass logits to the distribution instead.",
        )
    return f"in {constraint}", "Map it into this range where it is computed."
