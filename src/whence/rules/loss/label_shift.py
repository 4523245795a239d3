"""Language-model labels are shifted by the wrong amount.

What happened
    A model that sees its input up to a position should predict the next token. Its labels are the
    tokens of the same position, which it has already seen; or those two positions later, because
    they were shifted twice: in the data, and in the model.
Why it matters
    Without a shift the loss falls to zero and the model has learned to copy. With two, it predicts
    the token after the next one.
How it is detected
    The labels of a token loss are compared with the model's input: all of them are the input
    shifted by 0 or by 2. The replayed step shows that a prediction does not depend on later tokens.
    Where the model runs step by step, the last token that a prediction depends on is its label.
How to fix it
    Shift once: logits[:, :-1] with ids[:, 1:], or inputs ids[:, :-1] with labels ids[:, 1:].
When it stays silent
    For masked language models, taggers, autoencoders (which see the whole sequence), and losses
    over several intended shifts.
Cost
    A comparison of tokens in a few recorded steps.
"""

from __future__ import annotations

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.lineage.dependence import depends_on_later, part_at, reach
from whence.rules.loss.probabilities import argument
from whence.rules.loss.shifting import leaves_out_first, shifted_by, shifted_in_loss
from whence.rules.operations import SAME_NUMBERS
from whence.rules.rule import Rank, study_rule
from whence.rules.sequences import Shift, by_time, repeats_its_input, shifts
from whence.rules.telling import silent_finding
from whence.source.spots import Spot
from whence.tape.tape import Call, Value


@study_rule("loss/label-shift", Rank.CAUSE)
def label_shift(study: Study) -> Finding | None:
    found = shifts(study)
    if any(each.by == 1 for each in found):
        return None
    for shift in found:
        if _is_causal(study, shift):
            return _report(study, shift.call, shift.by, shift)
    repeating = repeats_its_input(study) if not found else None
    return _report(study, repeating, 0, None) if repeating is not None else None


def _report(study: Study, loss: Call, by: int, shift: Shift | None) -> Finding | None:
    late = _late_input(shift) if shift is not None and by == 0 else None
    made = late or _made(study, loss)
    spot = Spot.of_site(made.site) if made is not None and made.site is not None else None
    here = Spot.of_site(loss.site) if loss.site is not None else None
    return silent_finding(
        study,
        "loss/label-shift",
        spot=spot or here,
        symptom=here,
        call=made or loss,
        step=study.step,
        verdict="each label is a token that the model has already seen: expected a shift of 1, "
        "got 0"
        if by == 0
        else "each label is the token after the next one: expected a shift of 1, got 2",
        what=f"all labels are the input shifted by {by}",
        why="The prediction at a position depends on the token of that position, so its label "
        "should be the token after it.",
        fix="Pass the tokens before the labels to the model: ids[:, :-1], with labels ids[:, 1:]."
        if late is not None
        else "Shift the labels by one against the inputs: ids[:, 1:] for ids[:, :-1]."
        if by == 0
        else "Shift once: either where the batch is built, or in the model.",
        patch=shifted_by(spot, -1)
        if late is not None and spot is not None
        else _patch(spot, loss, by, shift),
        replay="bit-identical",
    )


def _patch(spot: Spot | None, loss: Call, by: int, shift: Shift | None) -> str | None:
    made = shifted_by(spot, 1 - by) if spot is not None else None
    return made or (shifted_in_loss(loss, shift.time) if by == 0 and shift is not None else None)


def _late_input(shift: Shift) -> Call | None:
    """The model's input slice, if it drops the first token as the label slice does."""
    ids = argument(shift.source.call, 0, "input") if shift.source.call is not None else None
    given, wanted = _slice(ids), _slice(argument(shift.call, 1, "target"))
    if given is None or wanted is None or given.operands[0] is not wanted.operands[0]:
        return None
    return given if all(map(leaves_out_first, (given, wanted))) else None


def _slice(value: Value | None) -> Call | None:
    """The slice behind a value that was only reshaped since."""
    call = value.call if value is not None else None
    while (
        call is not None
        and call.name in SAME_NUMBERS - {"__getitem__"}
        and call.operands
        and not call.forgotten
    ):
        call = call.operands[0].call
    return call if call is not None and call.name == "__getitem__" and call.operands else None


def _is_causal(study: Study, shift: Shift) -> bool:
    """Whether the middle prediction depends on no later token, and without a shift on its own."""
    run = study.run
    made = by_time(shift)
    if run is None or made is None or made.value not in run.contents:
        return False
    step, source = shift.length // 2, shift.source
    if depends_on_later(run, made.value, source, index=made.at(step), step=step, time=shift.time):
        return False
    # With a start token in front, a prediction depends only on tokens before its own position.
    seen = reach(run, made.value, part_at(made.at(step), axes=3), source)
    return shift.by != 0 or (
        seen is not None and bool(seen.select(shift.time, step).select(0, 0).any())
    )


def _made(study: Study, loss: Call) -> Call | None:
    """The call that computed the labels: the first one that serves only them."""
    value = argument(loss, 1, "target")
    here, own = loss.site, {id(loss)}
    best: Call | None = None
    for _ in range(50):
        call = value.call if value is not None else None
        if (
            call is None
            or any(id(each) not in own and value in each.operands for each in study.tape.calls)
            or call.forgotten
            or not call.operands
            or call.name not in SAME_NUMBERS | {"long", "masked_fill", "roll", "detach"}
        ):
            break
        if call.site is not None and (
            here is None
            or call.site.f_lineno != here.f_lineno
            or call.site.f_code is not here.f_code
        ):
            best = call
            if call.name in ("__getitem__", "roll", "narrow"):
                return call
        own.add(id(call))
        value = call.operands[0]
    return best
