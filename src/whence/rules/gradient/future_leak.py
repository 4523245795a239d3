"""A prediction depends on inputs it must not see.

What happened
    A model is trained to give the next token, and its prediction for a place depends on later places: a causal mask is missing.
Why it matters
    It copies what it is to predict. The loss is far too good, and at generation time, when the future is not there, the model fails.
How it is detected
    The labels of a token loss are the model's input shifted by one; in the replayed pass the gradient of one prediction is not zero at later
    places. The first call whose result leaks is named; where a mask was laid over it that is open some places too far, the call that made
    the mask.
How to fix it
    A causal mask: is_causal=True, or generate_square_subsequent_mask.
When it stays silent
    Encoders, taggers, masked language models, bidirectional nets whose labels are not their shifted input; prefixes without labels.
Cost
    One backward through a replayed step for language models, some more if they leak.
"""

from __future__ import annotations

from torch import nn

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.lineage.dependence import depends_on_later
from whence.rules.gradient.masks import Mask, leaking_mask
from whence.rules.loss.label_shift import by_time
from whence.rules.loss.probabilities import argument
from whence.rules.rule import Rank, study_rule
from whence.rules.sequences import Shift, embedded, shifts
from whence.rules.telling import place_of, tell_silent
from whence.source.spots import Spot
from whence.tape.scopes import Scope
from whence.tape.tape import Call

MOST_CALLS = 300


@study_rule("gradient/future-leak", Rank.CAUSE)
def future_leak(study: Study) -> Finding | None:
    for shift in shifts(study):
        logits = argument(shift.call, 0, "input")
        value = by_time(logits, shift) if logits is not None else None
        places = [each for each in shift.supervised if each + 2 < shift.length]
        if shift.by != 1 or value is None or not places:
            continue
        step = places[len(places) // 2]
        source = embedded(shift)
        run = study.again(value, source, gradients=True, towards={source})
        if run is None or not depends_on_later(run, value, source, batch=0, step=step, axis=1, source_axis=1):
            continue
        run = study.run
        if run is None:
            continue
        leak = _first(study, shift, step)
        mask = leaking_mask(study, leak, embedded(shift).shape[1]) if leak is not None else None
        spot = _made(mask) or (_where(leak, study) if leak is not None else None)
        here = Spot.of_site(shift.call.site) if shift.call.site is not None else None
        return tell_silent(
            study,
            "gradient/future-leak",
            spot=spot or here,
            symptom=here,
            call=leak or shift.call,
            step=study.step,
            verdict=f"the prediction at place {step} depends on later tokens: {leak.name if leak is not None else 'a call'} looks into the future",
            what="labels are the input shifted by one, and the model sees them",
            why=_why(mask),
            fix=_fix(mask),
            chain=(Spot.of_site(leak.site).hop("what attends with it"),)
            if mask is not None and mask.call is not leak and leak is not None and leak.site is not None
            else (),
            replay="bit-identical",
            counterfactual=f"the gradient of prediction {step} at later tokens is not zero",
        )
    return None


def _made(mask: Mask | None) -> Spot | None:
    return Spot.of_site(mask.call.site) if mask is not None and mask.call.site is not None else None


def _why(mask: Mask | None) -> str:
    if mask is None:
        return "Without a causal mask every place attends to every other, also to the token that it is to predict."
    if not mask.by:
        return "The causal mask is laid the wrong way round here: it closes the past, and leaves the future open."
    places = "one place" if mask.by == 1 else f"{mask.by} places"
    return f"The mask is made here, and is open {places} too far: a place sees the token that it is to predict."


def _fix(mask: Mask | None) -> str:
    if mask is None:
        return "Give it a causal mask: is_causal=True, or nn.Transformer.generate_square_subsequent_mask(length)."
    if not mask.by:
        return "Turn it round (~mask): masked_fill and nn.MultiheadAttention close where it is True, scaled_dot_product_attention and where open."
    return "Let each place see itself and what is before it: tril(...) without a diagonal, or triu(..., diagonal=1) for what is closed."


def _where(leak: Call, study: Study) -> Spot | None:
    """A mask is given where attention is called; a convolution looks ahead as it was built."""
    scopes = leak.module.lineage() if isinstance(leak.module, Scope) else ()
    attends = any(isinstance(each.module, nn.MultiheadAttention) for each in scopes)
    return Spot.of_site(leak.site) if attends and leak.site is not None else place_of(leak, study)


def _first(study: Study, shift: Shift, step: int) -> Call | None:
    """The first call whose result at a place depends on later ones."""
    for call in study.path(shift.loss.value)[:MOST_CALLS]:
        if (
            call.number > shift.embedding.number
            and len(_times(call, shift)) == 1
            and _looks_ahead(study, shift, step, call)
        ):
            return _mixing(study, shift, step, call)
    return None


def _mixing(study: Study, shift: Shift, step: int, call: Call) -> Call:
    """Back from there to the softmax that mixes the places, over results in which time is one of several axes of its size."""
    while call.name != "softmax":
        before = [
            value.call
            for value in call.operands
            if value.call is not None and value.call.number > shift.embedding.number and _times(value.call, shift)
        ]
        earlier = next((each for each in before if _looks_ahead(study, shift, step, each)), None)
        if earlier is None:
            break
        call = earlier
    return call


def _times(call: Call, shift: Shift) -> list[int]:
    """The axes of a result that may be time."""
    shape = call.outputs[0].shape if call.outputs else ()
    width = embedded(shift).shape[1]
    return [axis for axis, size in enumerate(shape) if size == width and axis > 0] if len(shape) > 2 else []


def _looks_ahead(study: Study, shift: Shift, step: int, call: Call) -> bool:
    """Whether a result depends on later places, whichever of its axes is time."""
    run = study.run
    if run is None or call.outputs[0] not in run.contents or call.outputs[0].shape[0] != shift.batch:
        return False
    source = embedded(shift)
    return all(
        depends_on_later(run, call.outputs[0], source, batch=0, step=step, axis=axis, source_axis=1)
        for axis in _times(call, shift)
    )
