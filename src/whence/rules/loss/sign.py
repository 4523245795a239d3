"""The objective is driven the wrong way.

What happened
    The loss is larger for a perfect prediction than for the present one: an overlap, a likelihood or a score is minimised where it should
    be maximised.
Why it matters
    The loss falls as it should, and the model gets worse with every step.
How it is detected
    The step is replayed with the target itself in place of the prediction, and the loss is compared. Where a policy's log-probabilities of
    actions that it drew are multiplied with what these earned, the loss is differentiated: it rises with the probability of what earned more.
    Where the scores of two rows of a table are subtracted, and one of the two was drawn at random: the loss falls when that one's score rises.
    Where a number of the loss is the divergence of a normal distribution from the standard one with a minus, and the loss falls with it.
    A loss that overflows, or ends a million times its first size below zero, and fell in nearly every step on the way there.
How to fix it
    A minus, or one minus the score.
When it stays silent
    Where a perfect prediction lowers the loss; objectives without a target; optimizers that maximise; losses that go through weights which another
    optimizer trains (one of two adversaries); differences whose sign matters; sums with a term that has another aim; targets that were drawn in the
    same step or from what was computed, as actions are. It is a note, but for divergences and losses without end.
Cost
    One more replay of a few recorded steps.
"""

from __future__ import annotations

import math

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.rules.loss.divergence import divergence_raised
from whence.rules.loss.policy import earnings_lowered
from whence.rules.loss.ranking import ranked_wrongly
from whence.rules.nonfinite.telling import number_text
from whence.rules.operations import SAME_NUMBERS, SAME_SHAPE_LOSSES
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import place_of, spot_at, tell_silent
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
    known = earnings_lowered(study) or ranked_wrongly(study) or divergence_raised(study)
    if known is not None:
        return known
    for loss, call, (prediction, target) in _pairs(study):
        if loss.number is None or not math.isfinite(loss.number):
            continue
        if call.name in SUBTRACTIONS and not _is_even(study, loss, call):
            # A ratio of probabilities, or a part of a sum, with no target in it.
            continue
        if call.name in SIMILARITIES and _is_even(study, loss, call):
            # To be at right angles is what is wanted.
            continue
        best = _with(study, loss, prediction, _perfect(study, call, prediction, target))
        if best is None or best <= loss.number + 0.01 * (1 + abs(loss.number)) or study.run is None:
            return None
        if _is_minimised(study, loss, call):
            return None
        return tell_silent(
            study,
            "loss/sign",
            spot=place_of(_term(study, loss, call), study),
            symptom=spot_at(loss.call.site),
            call=call,
            step=study.step,
            severity=Severity.INFO,
            confidence=Confidence.HINT,
            verdict=f"a perfect prediction has a larger loss ({number_text(best)}) than the present one ({number_text(loss.number)})",
            what="what is minimised grows when the prediction gets better",
            why="An optimizer lowers what backward is called on. Here that moves the prediction away from its target.",
            fix="Minimise its negative (or one minus the score), if a better prediction is what you want.",
            replay="bit-identical",
            counterfactual=f"with the target in place of the prediction the loss is {number_text(best)}",
        )
    return None


def _term(study: Study, loss: Loss, call: Call) -> Call:
    """The term of a loss that a call is part of, as it was last put together: that is what is to be turned round."""
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
    """Where predictions meet their targets, the nearest to the loss first. What is left over from one (`1 - p`) is none beside it."""
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
    """A prediction and its target, where they meet."""
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
            # What is neither is chosen by the target, and not compared with it: distances of pairs that belong together.
            return None
        number = study.content(prediction) if bool(((aim == 0) | (aim == 1)).all()) else None
        return (
            (prediction, target)
            if number is not None and bool(((number >= 0) & (number <= 1)).all())
            else None
        )
    return prediction, target


def _is_even(study: Study, loss: Loss, call: Call) -> bool:
    """Whether what a call makes counts whatever its sign: a distance does."""
    difference = study.content(call.outputs[0]) if call.outputs else None
    turned = _with(study, loss, call.outputs[0], -difference) if difference is not None else None
    return (
        turned is not None
        and loss.number is not None
        and math.isclose(turned, loss.number, rel_tol=1e-4)
    )


def _is_drawn(study: Study, value: Value) -> bool:
    """Whether it was drawn in this very pass, or from a distribution that was computed, as actions are: nobody says that these are right."""
    call = _source(value)
    return (
        call is not None
        and is_random(call)
        and (call.number >= study.now.first or bool(call.operands))
    )


def _source(value: Value) -> Call | None:
    """The call that made the numbers of a value, wherever they have been put since."""
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
    """What the prediction would be if it were right."""
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
    """Whether a term that measures a distance is lowered with the loss. It is another term then that grows: one with an aim of its own,
    such as what a teacher says."""
    if call.name not in DISTANCES or not call.outputs:
        return False
    if call.outputs[0] is loss.value:
        # It is the loss. Smoothed labels are no perfect prediction's.
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
