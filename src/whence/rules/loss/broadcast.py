"""Prediction and target broadcast into a larger tensor.

What happened
    Two tensors with one row per sample, such as (32, 1) and (32,), were combined. PyTorch aligns
    shapes from the right: every prediction was compared with the target of every sample, and the
    result is (32, 32).
Why it matters
    The mean of all these differences is smallest when every prediction equals the mean of the
    targets. The model learns that, and ignores its inputs.
How it is detected
    On the tape, both operands have the batch as their first axis and the same number of elements;
    the result has more, and the loss depends on it. One operand depends on the weights and the
    other does not, or both are part of a target that a prediction of the smaller shape is compared
    with. The step is replayed with matching shapes. Where one broadcasts along an axis of the other
    that has the size of the batch, (16, 1) with (16, 16, 16), sizes do not decide: the step is
    replayed with one sample replaced. If both change only at that row of their first axis, their
    axes are misaligned.
How to fix it
    Call squeeze(-1) on the tensor with the extra axis where the two are combined; or unsqueeze(-1)
    on the other, where the result is combined with more tensors of that shape.
When it stays silent
    For intended tables of pairs: both sides from the same tensor, an axis added with None or
    unsqueeze in the same statement, (N, 1) with (1, N). For values along an axis of the batch's
    size that depend on no sample or on all of them, and for sums that are the same either way.
Cost
    A comparison of shapes for each call of a recorded step; four replays where an axis has the size
    of the batch.
"""

from __future__ import annotations

import math
from functools import partial
from itertools import combinations
from typing import Any

import torch

from whence.finding import Confidence, Finding
from whence.ledgers.study import Loss, Study
from whence.lineage.ancestry import ancestors
from whence.rules.footprints import is_of_data
from whence.rules.loss.across import misaligned_axis
from whence.rules.nonfinite.telling import number_text
from whence.rules.operations import (
    COMPARISONS,
    DISTANCES,
    ELEMENTWISE,
    ORDERS,
    SAME_NUMBERS,
    SAME_SHAPE_LOSSES,
)
from whence.rules.rule import Rank, call_rule, study_rule
from whence.rules.source_operands import operand_nodes, operands_of_study
from whence.rules.telling import call_finding, shape_text, silent_finding
from whence.source.edits import Edit, diff_of, in_parentheses, replace_node
from whence.source.spots import Spot
from whence.source.text import statement_of
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value, flatten, map_leaves

MEETING = ELEMENTWISE | COMPARISONS | SAME_SHAPE_LOSSES
Way = tuple[Value, Value, str]
"""The value to reshape, the value whose shape it takes, and the code for that."""


@study_rule("loss/broadcast", Rank.GENERAL)
def broadcast(study: Study) -> Finding | None:
    for loss, call in study.loss_calls():
        pair = _crossed(call) if call.name in MEETING else None
        if (
            pair is None
            or call.site is None
            or (pair[0].requires_grad == pair[1].requires_grad and not _is_loss(call))
        ):
            continue
        wide, narrow = pair
        is_of_table = not _is_as_large(wide, narrow) and not is_of_data(
            study, narrow, narrow.shape[0]
        )
        if is_of_table or _is_meant(call, wide, narrow):
            continue
        meetings = _meetings(study.path(loss.value), wide, narrow)
        before = study.content(loss.value)
        together = {each: (odd, right) for each, (odd, right, _) in meetings.items()}
        after = study.again(loss.value, alter=partial(_brought_together, together))
        fixed = after.contents.get(loss.value) if after is not None else None
        if fixed is not None and fixed.dim():
            continue
        grown, compares = _grown(wide, narrow), call.name in DISTANCES | COMPARISONS
        spot = Spot.of_site(call.site)
        number = number_text(float(fixed.detach())) if fixed is not None else None
        return silent_finding(
            study,
            "loss/broadcast",
            spot=spot,
            call=call,
            step=study.step,
            verdict=(
                "each prediction is compared with every target"
                if compares
                else "each sample is combined with every other sample"
            )
            + f": {shape_text(wide.shape)} and {shape_text(narrow.shape)} broadcast to "
            f"{shape_text(grown)}",
            what="the loss is "
            + (
                number_text(float(before.detach()))
                if before is not None and before.dim() == 0
                else "computed from it"
            ),
            symptom=Spot.of_site(loss.call.site) if loss.call.site is not None else None,
            why=f"PyTorch aligns shapes from the right, so {shape_text(wide.shape)} with "
            f"{shape_text(narrow.shape)} gives a {shape_text(grown)} table of all pairs of "
            "samples. "
            + (
                "The loss is smallest when every prediction equals the mean of all targets."
                if compares
                else "Only its diagonal combines a sample with itself."
            ),
            fix=_fix(meetings[call]),
            confidence=Confidence.PROVEN if number is not None else Confidence.LIKELY,
            operands=operands_of_study(call, (wide, narrow), study),
            # Where the rest of the statement needs both axes, removing one would only raise.
            patch=_patch(meetings) if fixed is not None or before is None else None,
            replay="bit-identical" if before is not None else None,
            counterfactual=f"with both {shape_text(meetings[call][1].shape)}, the loss of the "
            f"same batch is {number}"
            if number
            else None,
        )
    metrics = map(_report_metric, filter(_may_be_of_the_loss, study.calls))
    return _table_as_target(study) or misaligned_axis(study) or next(filter(None, metrics), None)


def _table_as_target(study: Study) -> Finding | None:
    """Find a target or advantage of (32, 32) that was broadcast before it met the prediction."""
    for loss, call in study.loss_calls():
        sides = call.operands[:2] if call.name in MEETING else ()
        learnt = next((each for each in sides if each.requires_grad), None)
        target = next((each for each in sides if not each.requires_grad), None)
        if learnt is None or target is None or learnt.numel >= target.numel:
            continue
        for made in ancestors(target):
            pair = _crossed(made) if made.name in MEETING and not made.forgotten else None
            if (
                pair is None
                or made.site is None
                or _grown(*pair) != target.shape
                or _is_meant(made, *pair)
            ):
                continue
            if call.name not in DISTANCES and pair[0].call is not None and _adds_axis(pair[0].call):
                # Pair weights, computed in two statements.
                continue
            right = next((each for each in pair if each.shape == learnt.shape), None)
            if right is not None:
                odd = pair[1] if right is pair[0] else pair[0]
                return _report_table(study, loss, call, made, odd=odd, right=right)
    return None


def _report_table(
    study: Study, loss: Loss, call: Call, made: Call, *, odd: Value, right: Value
) -> Finding | None:
    assert made.site is not None
    after = study.again(loss.value, alter=partial(_brought_together, {made: (odd, right)}))
    fixed = after.contents.get(loss.value) if after is not None else None
    number = number_text(float(fixed.detach())) if fixed is not None and not fixed.dim() else None
    grown = shape_text(_grown(odd, right))
    # The batch axis is in the same position in both, so only an axis of size 1 can differ.
    way = odd, right, ".unsqueeze(-1)" if len(odd.shape) < len(right.shape) else ".squeeze(-1)"
    compared = call.name in DISTANCES
    use = (
        f"{call.name} {'compares it with' if compared else 'combines it with'} "
        f"{shape_text(right.shape)}"
    )
    met = (Spot.of_site(call.site).hop(use),) if call.site else ()
    return silent_finding(
        study,
        "loss/broadcast",
        spot=Spot.of_site(made.site),
        call=made,
        step=study.step,
        verdict=(
            "each prediction is compared with every target"
            if compared
            else "each prediction is combined with the values of every sample"
        )
        + f": {shape_text(odd.shape)} and {shape_text(right.shape)} broadcast to {grown}",
        what="the loss is computed from it",
        symptom=Spot.of_site(loss.call.site) if loss.call.site is not None else None,
        why=f"PyTorch aligns shapes from the right, so {shape_text(odd.shape)} with "
        f"{shape_text(right.shape)} gives a {grown} table of all pairs of samples. "
        + (
            "The loss is smallest when every prediction equals the mean over all samples."
            if compared
            else "The value of each sample is applied to all others."
        ),
        fix=f"Give both the shape of the prediction, {shape_text(right.shape)}: call {way[-1]} on "
        f"the {shape_text(odd.shape)} tensor.",
        patch=_patch({made: way}),
        confidence=Confidence.PROVEN if number is not None else Confidence.LIKELY,
        operands=operands_of_study(made, (odd, right), study),
        chain=met,
        counterfactual=f"with both {shape_text(right.shape)}, the loss of the same batch is "
        f"{number}"
        if number
        else None,
    )


@call_rule("loss/broadcast")
def broadcast_in_a_metric(call: Call) -> Finding | None:
    """The same in a comparison for a metric: training is unaffected, but the metric is wrong."""
    return None if _may_be_of_the_loss(call) else _report_metric(call)


def _may_be_of_the_loss(call: Call) -> bool:
    """Whether a comparison may be part of the loss, `where(guess > truth, ...)`: decided later."""
    return call.name in ORDERS and any(each.requires_grad for each in call.operands)


def _report_metric(call: Call) -> Finding | None:
    if (
        call.name not in COMPARISONS
        or call.phase not in ("program", "forward")
        or call.site is None
    ):
        return None
    pair = _crossed(call)
    if pair is None or _is_meant(call, *pair):
        return None
    wide, narrow = pair
    if _from_model(wide) == _from_model(narrow):
        return None
    grown = _grown(wide, narrow)
    verdict = (
        f"each prediction is compared with every label: {shape_text(wide.shape)} and "
        f"{shape_text(narrow.shape)} broadcast to {shape_text(grown)}"
    )
    return call_finding(
        call,
        "loss/broadcast",
        verdict=verdict,
        why=f"Each of {narrow.shape[0]} predictions is compared with the labels of all samples "
        "instead of its own, so the metric is wrong.",
        fix=_fix(way := _way((), call, wide, narrow)),
        patch=_patch({call: way}),
        what="a metric is computed from it",
    )


def _meetings(calls: tuple[Call, ...], wide: Value, narrow: Value) -> dict[Call, Way]:
    """Every call that combines these two: a loss may compare them, then subtract them."""
    same = _stripped(wide), _stripped(narrow)
    crossed = {call: pair for call in calls if (pair := _crossed(call)) is not None}
    return {
        call: _way(calls, call, *pair)
        for call, pair in crossed.items()
        if (_stripped(pair[0]), _stripped(pair[1])) == same
    }


def _is_loss(call: Call) -> bool:
    """Loss functions compare elementwise: a table of pairs is never intended there."""
    return call.name in SAME_SHAPE_LOSSES


def _crossed(call: Call) -> tuple[Value, Value] | None:
    """Two operands whose batch axes do not align: the one with more axes first."""
    for one, other in combinations(call.operands, 2):
        wide, narrow = (one, other) if len(one.shape) > len(other.shape) else (other, one)
        if len(wide.shape) > len(narrow.shape) > 0 and (
            _is_as_large(wide, narrow) or _is_of_several(call, wide, narrow)
        ):
            grown = _grown(wide, narrow)
            if math.prod(grown) > wide.numel:
                return wide, narrow
    return None


def _is_as_large(wide: Value, narrow: Value) -> bool:
    return (
        wide.shape[0] == narrow.shape[0] > 1
        and wide.numel == narrow.numel
        and tuple(d for d in wide.shape if d != 1) == tuple(d for d in narrow.shape if d != 1)
    )


def _is_of_several(call: Call, wide: Value, narrow: Value) -> bool:
    """(5, 32, 1) with targets (32,): the predictions of several models."""
    rows = narrow.shape[0]
    return (
        call.name in DISTANCES
        and wide.requires_grad
        and not narrow.requires_grad
        and wide.shape[1:] == (*narrow.shape, 1)
        and rows > 1
    )


def _grown(wide: Value, narrow: Value) -> tuple[int, ...]:
    return tuple(torch.broadcast_shapes(wide.shape, narrow.shape))  # type: ignore[no-untyped-call]


def _is_meant(call: Call, wide: Value, narrow: Value) -> bool:
    """Intended pairs: of a tensor with itself, or with an axis added in the same statement."""
    if _stripped(wide) is _stripped(narrow):
        return True
    made = wide.call
    if made is None or made.site is None or call.site is None or not _adds_axis(made):
        return False
    node, here = made.site.node(), call.site.node()
    return node is not None and here is not None and statement_of(node) is statement_of(here)


def _adds_axis(call: Call) -> bool:
    """`x.unsqueeze(1)` and `x[:, None]`; a slice, `x[:, :1]`, keeps an existing axis."""
    return call.name == "unsqueeze" or (
        call.name == "__getitem__" and None in flatten(call.args[1:])
    )


def _stripped(value: Value) -> Value:
    """The value that this one is a view, a copy or a detached part of."""
    for _ in range(100):
        call = value.call
        if (
            call is None
            or call.forgotten
            or call.name not in SAME_NUMBERS | {"detach"}
            or not call.operands
        ):
            break
        value = call.operands[0]
    return value


def _from_model(value: Value) -> bool:
    return any(isinstance(call.module, Scope) for call in ancestors(value))


def _brought_together(
    meetings: dict[Call, tuple[Value, Value]], call: Call, args: Any, kwargs: Any
) -> tuple[Any, Any]:
    if call not in meetings:
        return args, kwargs
    odd, right = meetings[call]

    def reshape(thing: Any) -> Any:
        same = isinstance(thing, torch.Tensor) and tuple(thing.shape) == odd.shape
        return (
            thing.reshape(right.shape if thing.numel() == right.numel else thing.shape[:-1])
            if same
            else thing
        )

    return map_leaves(reshape, args), map_leaves(reshape, kwargs)


def _patch(meetings: dict[Call, Way]) -> str | None:
    edits = {_edit(call, way) for call, way in meetings.items()}
    wanted = [each for each in edits if each is not None]
    # Fixing only some of the places would be another bug.
    return (
        diff_of(*wanted)
        if len(wanted) == len(edits) and len({each.filename for each in wanted}) == 1
        else None
    )


def _way(calls: tuple[Call, ...], call: Call, wide: Value, narrow: Value) -> Way:
    """Which of the two takes the shape of the other, and how.

    The other operands decide (a variance has the shape of its mean), or the tensors that the
    result is combined with later.
    """
    together = all(each.shape == narrow.shape for each in call.operands if each is not wide)
    if together and _shape_beside(calls, call, {wide.shape, narrow.shape}) != wide.shape:
        return wide, narrow, ".squeeze(-1)"
    return narrow, wide, ".unsqueeze(-1)"


def _shape_beside(
    calls: tuple[Call, ...], met: Call, shapes: set[tuple[int, ...]]
) -> tuple[int, ...] | None:
    """The first of these shapes among the tensors that the result is combined with later."""
    reached = {*met.outputs}
    for call in calls:
        if call.number <= met.number or not reached.intersection(call.operands):
            continue
        others = [
            each.shape for each in call.operands if each not in reached and each.shape in shapes
        ]
        if others and call.name in ELEMENTWISE:
            return others[0]
        reached.update(call.outputs)
    return None


def _fix(way: Way) -> str:
    odd, _, text = way
    return f"Give both the same shape here: call {text} on the {shape_text(odd.shape)} tensor."


def _edit(call: Call, way: Way) -> Edit | None:
    odd, right, text = way
    nodes = operand_nodes(call)
    alike = len({each.shape for each in call.operands if each is not odd}) == 1
    position = call.operands.index(odd)
    longer, shorter = sorted((odd.shape, right.shape), key=len, reverse=True)
    fits = longer[len(longer) - len(shorter) - 1 :] == (*shorter, 1)
    if position >= len(nodes) or call.site is None or not fits or not alike:
        return None
    node = nodes[position]
    return replace_node(call.site.filename, node, in_parentheses(call.site.filename, node) + text)
