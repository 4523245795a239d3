"""The objective is optimised in the wrong direction.

What happened
    The loss is larger for a perfect prediction than for the current one: an overlap, a likelihood
    or a score is minimised where it should be maximised.
Why it matters
    The loss falls as expected, and the model gets worse with every step.
How it is detected
    The step is replayed with the target in place of the prediction, and the losses are compared.
    Policies: the loss is differentiated with respect to the log-probabilities of the actions, and
    rises with those of high return. Ranking: two scores are subtracted, one of a random item, and
    the loss falls when that score rises. Divergences: a term equals the negative KL divergence from
    the standard normal, or the divergence is subtracted. Unbounded losses: the loss overflows, or
    ends a million times its first size below zero, and fell in most steps before.
How to fix it
    Add a minus, or use one minus the score.
When it stays silent
    Where a perfect prediction lowers the loss; for objectives without a target; optimizers that
    maximise; losses through weights of another optimizer (adversarial training); differences whose
    sign matters; sums with other objectives; targets that were drawn in the same step or from a
    computed distribution, like actions. It is a note, except for divergences and unbounded losses.
Cost
    One more replay of a few recorded steps.
"""

from __future__ import annotations

import math

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.rules.loss.divergence import divergence_maximised
from whence.rules.loss.policy import returns_minimised
from whence.rules.loss.ranking import random_ranked_first
from whence.rules.nonfinite.telling import number_text
from whence.rules.operations import SAME_NUMBERS, SAME_SHAPE_LOSSES
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import place_of, silent_finding, spot_at
from whence.tape.slices import is_random
from whence.tape.tape import Call, Value

SUBTRACTIONS = frozenset({"sub", "__sub__", "subtract", "rsub", "__rsub__"})
DIFFERENCES = SUBTRACTIONS | SAME_SHAPE_LOSSES
SIMILARITIES = frozenset({"cosine_similarity"})
PRODUCTS = frozenset({"mul", "__mul__", "multiply"})
SUMS = frozenset({"add", "__add__", "__radd__", "__iadd__"})
DISTANCES = SAME_SHAPE_LOSSES | {"nll_loss", "cross_entropy"}
LOOKUPS = frozenset({"gather", "nll_loss", "cross_entropy"})
PROBABILITIES = frozenset(
    {"sigmoid", "softmax", "exp", "clamp", "clip", "special_expit", "hardsigmoid"}
)
NEARLY_SURE = 0.999


@study_rule("loss/sign", Rank.GENERAL)
def sign(study: Study) -> Finding | None:
    if (
        study.step < 1
        or not _trains_all(study)
        or any(each.get("maximize") for each in study.optimizer.param_groups)
    ):
        return None
    known = returns_minimised(study) or random_ranked_first(study) or divergence_maximised(study)
    if known is not None:
        return known
    for loss, call, (prediction, target) in _pairs(study):
        if loss.number is None or not math.isfinite(loss.number):
            continue
        if call.name in SUBTRACTIONS and not _is_even(study, loss, call):
            # A ratio of probabilities, or a part of a sum, without a target.
            continue
        if call.name in SIMILARITIES and _is_even(study, loss, call):
            # Orthogonality is the objective.
            continue
        best = _with(study, loss, prediction, _perfect(study, call, prediction, target))
        if best is None or best <= loss.number + 0.01 * (1 + abs(loss.number)) or study.run is None:
            return None
        if _is_minimised(study, loss, call):
            return None
        return silent_finding(
            study,
            "loss/sign",
            spot=place_of(_term(study, loss, call), study),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.INFO,
            confidence=Confidence.HINT,
            verdict=f"a perfect prediction has a larger loss ({number_text(best)}) than the "
            f"current one ({number_text(loss.number)})",
            what="the loss grows when the prediction gets better",
            why="The optimizer minimises the loss. Here that moves the prediction away from its "
            "target.",
            fix="Minimise the negative (or one minus the score), if a better prediction should "
            "have a smaller loss.",
            replay="bit-identical",
            counterfactual="with the target in place of the prediction, the loss is "
            f"{number_text(best)}",
        )
    return None


def _term(study: Study, loss: Loss, call: Call) -> Call:
    """The term of the loss that contains a call: the term to negate."""
    value = loss.value
    while value.call is not None and value.call.name in SUMS:
        within = [
            each for each in value.call.operands if each.requires_grad and call in study.path(each)
        ]
        if len(within) != 1:
            break
        value = within[0]
    return value.call or call


def _trains_all(study: Study) -> bool:
    weights = [each for each in study.now.held.values() if each.requires_grad and each.is_leaf]
    return bool(weights) and all(id(each) in study.entry.weights for each in weights)


def _pairs(study: Study) -> list[tuple[Loss, Call, tuple[Value, Value]]]:
    """Pairs of prediction and target, nearest to the loss first; without complements (`1 - p`)."""
    found = [
        (loss, call, pair)
        for loss, call in study.loss_calls()
        if (pair := _pair(study, call)) is not None
    ]
    met = {each for _, _, pair in found for each in pair}
    return [each for each in found if not any(_left_from(value) in met for value in each[2])]


def _left_from(value: Value) -> Value | None:
    call = value.call
    return (
        call.operands[0]
        if call is not None and call.name in SUBTRACTIONS and len(call.operands) == 1
        else None
    )


def _pair(study: Study, call: Call) -> tuple[Value, Value] | None:
    """The prediction and target that a call combines, if any."""
    if call.inner or len(call.operands) < 2:
        return None
    learnt = [each for each in call.operands if each.requires_grad]
    given = [each for each in call.operands if not each.requires_grad]
    if len(learnt) != 1 or not given or _is_drawn(study, given[0]):
        return None
    prediction, target = learnt[0], given[0]
    if call.name in LOOKUPS:
        fits = not target.dtype.is_floating_point and len(prediction.shape) == 2
    else:
        fits = (
            prediction.shape == target.shape
            and target.dtype.is_floating_point
            and call.name in DIFFERENCES | PRODUCTS | SIMILARITIES
        )
    aim = study.content(target) if fits else None
    if aim is None or aim.numel() < 2 or bool((aim == aim.reshape(-1)[0]).all()):
        return None
    if call.name in PRODUCTS:
        if _maker(prediction) not in PROBABILITIES:
            # The target selects here rather than compares: distances of positive pairs.
            return None
        number = study.content(prediction) if bool(((aim == 0) | (aim == 1)).all()) else None
        return (
            (prediction, target)
            if number is not None and bool(((number >= 0) & (number <= 1)).all())
            else None
        )
    return prediction, target


def _is_even(study: Study, loss: Loss, call: Call) -> bool:
    """Whether the loss ignores the sign of a call's result, as a distance does."""
    difference = study.content(call.outputs[0]) if call.outputs else None
    turned = _with(study, loss, call.outputs[0], -difference) if difference is not None else None
    return (
        turned is not None
        and loss.number is not None
        and math.isclose(turned, loss.number, rel_tol=1e-4)
    )


def _is_drawn(study: Study, value: Value) -> bool:
    """Whether it was drawn in this step, or from a computed distribution: not a true target."""
    call = _source(value)
    return (
        call is not None
        and is_random(call)
        and (call.number >= study.now.first or bool(call.operands))
    )


def _source(value: Value) -> Call | None:
    """The call that computed the values of a value, wherever they were moved since."""
    call = value.call
    while (
        call is not None
        and call.name in SAME_NUMBERS | {"long", "broadcast_tensors"}
        and call.operands
    ):
        at = next((place for place, each in enumerate(call.outputs) if each is value), 0)
        value = (
            call.operands[at]
            if call.name == "broadcast_tensors" and at < len(call.operands)
            else call.operands[0]
        )
        call = value.call
    return call


def _maker(value: Value) -> str:
    call = _source(value)
    return call.name if call is not None else ""


def _perfect(study: Study, call: Call, prediction: Value, target: Value) -> torch.Tensor | None:
    """The prediction that matches the target."""
    aim = study.content(target)
    if aim is None:
        return None
    if call.name not in LOOKUPS:
        return (
            torch.logit(aim, 1e-6)
            if call.name == "binary_cross_entropy_with_logits"
            else aim.to(prediction.dtype)
        )
    rows, classes = prediction.shape
    index = aim.reshape(-1)
    if len(index) != rows or classes < 2 or int(index.min()) < 0 or int(index.max()) >= classes:
        return None
    unsure = math.log((1 - NEARLY_SURE) / (classes - 1))
    sure = torch.full(prediction.shape, unsure, dtype=prediction.dtype, device=prediction.device)
    return sure.scatter_(1, index.long().unsqueeze(1), math.log(NEARLY_SURE))


def _is_minimised(study: Study, loss: Loss, call: Call) -> bool:
    """Whether a distance term falls with the loss: then another term grows.

    Such a term has its own objective, such as matching a teacher.
    """
    if call.name not in DISTANCES or not call.outputs:
        return False
    if call.outputs[0] is loss.value:
        # It is the loss itself. Smoothed labels have no perfect prediction.
        return True
    made = study.content(call.outputs[0])
    if made is None or loss.number is None:
        return False
    more = _with(study, loss, call.outputs[0], made + 1)
    return more is not None and more > loss.number


def _with(
    study: Study, loss: Loss, prediction: Value, content: torch.Tensor | None
) -> float | None:
    if prediction.call is None or content is None:
        return None
    found = study.with_content(prediction, content, loss.value)
    number = float(found.detach()) if found is not None and found.numel() == 1 else math.nan
    return number if math.isfinite(number) else None
