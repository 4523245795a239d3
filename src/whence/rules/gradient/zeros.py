"""Two weights that start at zero and are multiplied: each is the other's derivative.

Documented with the step functions in `zero_derivative`, which share this rule id.
"""

from __future__ import annotations

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Study
from whence.rules.gradient.symmetric import initialised
from whence.rules.operations import PRODUCTS
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.tape.tape import Call, Value


@study_rule("gradient/zero-derivative", Rank.CALL)
def zeros_multiplied(study: Study) -> Finding | None:
    if study.step < 1:
        return None
    stuck = {
        id(each): each
        for group in study.optimizer.param_groups
        for each in group["params"]
        if _is_stuck(study, each)
    }
    for call in study.calls:
        later = _weight_of(call, stuck)
        earlier = _multiplied_before(call, later, stuck) if later is not None else None
        if later is None or earlier is None:
            continue
        names = [
            study.modules.name_of(each) or f"a weight {shape_text(each.shape)}"
            for each in (earlier, later)
        ]
        made = initialised(study, earlier)
        return silent_finding(
            study,
            "gradient/zero-derivative",
            spot=spot_at(made.site) if made is not None else None,
            symptom=spot_at(call.site),
            call=call,
            step=study.step,
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"{names[0]} and {names[1]} are both zero and multiplied with each other: "
            "neither can learn",
            what="both are zero after the first steps, and so are their gradients",
            why="The gradient of each factor is proportional to the other factor, so both "
            "gradients stay zero. Only one factor may start at zero.",
            fix=f"Initialise {names[0]} randomly, as LoRA does with its A.",
        )
    return None


def _is_stuck(study: Study, weight: torch.Tensor) -> bool:
    if weight.dim() < 2 or weight.is_sparse or bool(weight.detach().any()):
        return False
    gradient = study.gradient_of(weight)
    return gradient is not None and not gradient.is_sparse and not bool(gradient.any())


def _weight_of(call: Call, stuck: dict[int, torch.Tensor]) -> torch.Tensor | None:
    """The stuck weight that a product uses, if any."""
    tensors = (
        (each.tensor for each in call.operands)
        if call.name in PRODUCTS or call.name == "linear"
        else ()
    )
    return next(
        (stuck[id(each)] for each in tensors if each is not None and id(each) in stuck), None
    )


def _multiplied_before(
    call: Call, later: torch.Tensor, stuck: dict[int, torch.Tensor]
) -> torch.Tensor | None:
    """The stuck weight that the other operand of a product was multiplied with, if any."""
    value: Value | None = next((each for each in call.operands if each.tensor is not later), None)
    for _ in range(8):
        made = value.call if value is not None else None
        if made is None or not made.operands:
            return None
        earlier = _weight_of(made, stuck)
        if earlier is not None:
            return earlier if earlier is not later else None
        value = made.operands[0]
    return None
