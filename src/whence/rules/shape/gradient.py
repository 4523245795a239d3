"""A gradient's shape is not its parameter's.

What happened
    A tensor of another shape was assigned to .grad, or given to backward as the gradient of its result.
Why it matters
    The optimizer would subtract it element by element; torch refuses it at the assignment.
How it is detected
    The shapes of parameter and gradient in the assignment that raised; the line that made the gradient is the origin.
How to fix it
    Make it in the parameter's shape; if it is transposed, the formula has its factors the wrong way round.
When it stays silent
    Gradients that fit.
Cost
    None until a call raises.
"""

from __future__ import annotations

import torch

from whence.finding import Finding, Operand
from whence.lineage.properties import HasShape
from whence.lineage.trail import trace
from whence.rules.rule import rule
from whence.rules.telling import describe, shape_text, tell
from whence.tape.failed import FailedCall


@rule("shape/gradient")
def gradient(failed: FailedCall) -> Finding | None:
    if failed.name not in ("grad.__set__", "backward"):
        return None
    subject = failed.argument(0, "self")
    given = failed.argument(1, "gradient")
    if not isinstance(subject, torch.Tensor) or not isinstance(given, torch.Tensor) or subject.shape == given.shape:
        return None
    trail = trace(failed.value(given), HasShape(tuple(given.shape)), failed)
    turned = tuple(given.shape) == tuple(reversed(subject.shape))
    return tell(
        failed,
        "shape/gradient",
        verdict=f"a gradient of {shape_text(given.shape)} for a parameter of {shape_text(subject.shape)}",
        trail=trail,
        why="A gradient has one number for each number of its parameter"
        + (", and this one has them transposed." if turned else "."),
        fix="Make it with the parameter's shape"
        + (": exchange the factors, or transpose it, where it is made." if turned else "."),
        operands=(Operand("gradient", describe(given)), Operand("parameter", describe(subject))),
    )
