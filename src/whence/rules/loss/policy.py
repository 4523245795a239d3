"""Policy objectives: log-probabilities of the policy's own actions times their returns."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.study import Loss, Study
from whence.lineage.ancestry import ancestors
from whence.rules.operations import SAME_NUMBERS
from whence.rules.telling import silent_finding, spot_at
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.replay import is_weight
from whence.tape.tape import Call, Value

PRODUCTS = frozenset({"mul", "__mul__", "__rmul__", "multiply"})
DIFFERENCES = frozenset({"sub", "__sub__", "subtract", "__rsub__", "rsub"})
SAME_SIGN = SAME_NUMBERS | PRODUCTS | {"neg", "__neg__", "negative", "sum"}
DRAWS = frozenset({"multinomial", "bernoulli", "poisson", "binomial", "normal"})
"""Their operand is the distribution's parameter, unlike noise, whose operand is only its shape."""
PICKS = frozenset({"gather", "__getitem__"})
COSTS = frozenset(
    {"nll_loss", "cross_entropy", "binary_cross_entropy_with_logits", "binary_cross_entropy"}
)
FURTHEST = 60
MOST_SCORES = 256
NEARLY_ALL = 0.99


@dataclass(frozen=True, slots=True)
class Score:
    """The product of a value that rises or falls with the probability of actions, and a return."""

    call: Call
    likely: Value
    rises: bool
    earned: Value | float


def returns_minimised(study: Study) -> Finding | None:
    """Report a loss that lowers the log-probability of actions with high returns."""
    if not any(map(_is_own_draw, study.calls)):
        return None
    for loss in study.losses:
        scores = _scores(study, loss)
        pushes, earned = _pushes(study, loss, scores)
        along = pushes * earned
        whole = float(along.abs().sum())
        if (
            not _is_graded(earned)
            or not whole
            or float(along.clamp(min=0).sum()) < NEARLY_ALL * whole
        ):
            continue
        spot = spot_at(_place(study, loss, scores).site)
        return silent_finding(
            study,
            "loss/sign",
            spot=spot,
            symptom=spot_at(loss.call.site),
            call=scores[0].call,
            step=study.step,
            severity=Severity.INFO,
            confidence=Confidence.HINT,
            verdict="actions with high returns become less likely: log-probability times return "
            "is minimised",
            what="the loss falls when actions with a positive return become less likely",
            why="The expected return rises with log-probability times return. The optimizer "
            "minimises the loss, so the loss must contain the negative.",
            fix="Minimise the negative, -log_prob * return; keep it as it is if the factor is a "
            "cost.",
            patch=_negated(spot),
            replay="bit-identical",
            counterfactual="the loss rises with the probability of actions with higher returns, "
            f"in all of {len(earned)} actions",
        )
    return None


def _place(study: Study, loss: Loss, scores: list[Score]) -> Call:
    """The product, or the call that joins several: negating one would leave the others."""
    first, sites = scores[0].call, {each.call.site for each in scores}
    if len(sites) == 1:
        return first
    products = {each.call for each in scores}
    value = place = loss.value
    while value.call is not None and value.call not in products:
        learnt = [each for each in value.call.operands if each.requires_grad]
        within = [each for each in learnt if products.intersection(study.path(each))]
        if len(within) != 1:
            break
        # Other terms of a sum have other objectives.
        place = within[0] if len(learnt) > 1 else place
        value = within[0]
    return place.call or first


def _scores(study: Study, loss: Loss) -> list[Score]:
    known: dict[Site | None, bool] = {}
    found = list(islice(_products(study, loss, known), MOST_SCORES))
    within = {id(call) for each in found for call in _products_within(each.likely)}
    return [each for each in found if id(each.call) not in within]


def _products(study: Study, loss: Loss, known: dict[Site | None, bool]) -> Iterator[Score]:
    for call in study.path(loss.value):
        if call.name not in PRODUCTS or call.inner or len(call.args) != 2 or not call.outputs:
            continue
        learnt = [each for each in call.args if isinstance(each, Value) and each.requires_grad]
        given = [each for each in call.args if each not in learnt]
        if len(learnt) != 1 or not isinstance(given[0], Value | float) or _is_mask(study, given[0]):
            continue
        if call.site not in known:
            rises = _rises(study, learnt[0], given[0])
            if rises is None:
                continue
            known[call.site] = rises
        yield Score(call, learnt[0], known[call.site], given[0])


def _products_within(value: Value) -> Iterator[Call]:
    """Products inside a factor of another product: discounts, sample weights."""
    for _ in range(FURTHEST):
        call = value.call
        if call is None or call.name not in SAME_SIGN:
            return
        if call.name in PRODUCTS:
            yield call
        value = next((each for each in call.operands if each.requires_grad), value)


def _is_mask(study: Study, given: Value | float) -> bool:
    if isinstance(given, float):
        return False
    content = study.content(given) if given.dtype.is_floating_point else None
    return content is None or (
        content.numel() > 1 and bool(((content == 0) | (content == 1)).all())
    )


def _rises(study: Study, likely: Value, earned: Value | float) -> bool | None:
    """Whether a value rises with the probability of the policy's own actions; None if unrelated."""
    met = next(
        (each for each in islice(ancestors(likely), FURTHEST) if _is_meeting(study, each)), None
    )
    made = study.content(met.outputs[0]) if met is not None else None
    before = study.content(likely)
    if met is None or made is None or before is None:
        return None
    if isinstance(earned, Value) and met in ancestors(earned):
        # A variational bound uses the log-probability itself as a cost.
        return None
    better = (
        made + 1 if met.name in PICKS else made - 1 if met.name in COSTS else torch.zeros_like(made)
    )
    after = study.with_content(met.outputs[0], better, likely)
    if after is None or after.shape != before.shape or torch.equal(after, before):
        return None
    return (
        True if bool((after >= before).all()) else False if bool((after <= before).all()) else None
    )


def _is_meeting(study: Study, call: Call) -> bool:
    """Whether a call evaluates the policy at an action that it drew.

    The action's entry in a table of (log-)probabilities, or its distance from a density's mean.
    """
    if (
        call.inner
        or call.forgotten
        or len(call.operands) < 2
        or not call.outputs
        or not call.outputs[0].requires_grad
    ):
        return False
    if call.name in DIFFERENCES:
        return any(map(_is_own, call.operands))
    if call.name in COSTS:
        return bool(call.outputs[0].shape) and _is_own(call.operands[1])
    if call.name not in PICKS or not any(map(_is_own, call.operands[1:])):
        return False
    table = study.content(call.operands[0])
    if table is None or not table.is_floating_point() or not table.dim():
        return False
    table = table.detach()
    return any(bool(((each.sum(-1) - 1).abs() < 1e-3).all()) for each in (table.exp(), table))


def _is_own(value: Value) -> bool:
    """Whether a value was drawn from a distribution that weights computed."""
    call = value.call
    for _ in range(FURTHEST):
        if call is None or value.requires_grad or not call.operands:
            return False
        if call.name in DRAWS:
            return _is_own_draw(call)
        if call.name not in SAME_NUMBERS | {"long", "broadcast_tensors", "detach", "clamp"}:
            return False
        at = next((place for place, each in enumerate(call.outputs) if each is value), 0)
        value = (
            call.operands[at]
            if call.name == "broadcast_tensors" and at < len(call.operands)
            else call.operands[0]
        )
        call = value.call
    return False


def _is_own_draw(call: Call) -> bool:
    if call.name not in DRAWS or call.inner or any(each.requires_grad for each in call.outputs):
        return False
    made = islice(ancestors(*call.operands), FURTHEST)
    return any(is_weight(each) for before in made for each in before.operands)


def _pushes(study: Study, loss: Loss, scores: list[Score]) -> tuple[torch.Tensor, torch.Tensor]:
    """The slope of the loss in the log-probability of each action, and the action's return."""
    none = torch.zeros(0), torch.zeros(0)
    run = study.run if scores else None
    whole = run.contents.get(loss.value) if run is not None else None
    if (
        run is None
        or whole is None
        or not whole.requires_grad
        or any(each.likely not in run.contents for each in scores)
    ):
        return none
    wanted = [run.contents[each.likely] for each in scores]
    try:
        gradients = torch.autograd.grad(whole.sum(), wanted, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return none
    pushes, earned = [], []
    for score, gradient in zip(scores, gradients, strict=True):
        given = (
            study.content(score.earned)
            if isinstance(score.earned, Value)
            else torch.tensor(score.earned)
        )
        if gradient is None or given is None or given.numel() not in (1, gradient.numel()):
            return none
        pushes.append((gradient if score.rises else -gradient).reshape(-1).float())
        earned.append(given.detach().reshape(-1).float().expand(gradient.numel()))
    return torch.cat(pushes), torch.cat(earned)


def _is_graded(earned: torch.Tensor) -> bool:
    """Whether returns differ by more than 0 and 1, unlike a mask."""
    if len(earned) < 2 or not math.isfinite(float(earned.sum())):
        return False
    return bool((earned != earned[0]).any()) and not bool(((earned == 0) | (earned == 1)).all())


def _negated(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.expr):
        return None
    subject = node.left if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) else node
    return diff_of(
        replace_node(spot.filename, subject, f"-{in_parentheses(spot.filename, subject)}")
    )
