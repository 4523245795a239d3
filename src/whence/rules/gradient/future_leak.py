"""A prediction depends on inputs it must not see.

What happened
    A model is trained to give the next token, or the next value of a series, and its prediction for a place depends on later places: a causal mask is missing, a
    convolution is padded on both sides, a recurrent layer reads in both directions.
Why it matters
    It copies what it is to predict. The loss is far too good, and at generation time, when the future is not there, the model fails.
How it is detected
    The labels of a loss over a sequence are the model's input shifted by one; in the replayed pass the gradient of one prediction is not zero at later
    places. The first call whose result leaks is named; where a mask was laid over it that is open some places too far, the call that made
    the mask; where a convolution's input was padded before, the padding.
How to fix it
    A causal mask: is_causal=True, or generate_square_subsequent_mask. Padding before the first place only. One direction.
When it stays silent
    Encoders, taggers, masked language models, bidirectional nets whose labels are not their shifted input; prefixes without labels;
    statistics of a batch or a window, as normalisation layers take them.
Cost
    One backward through a replayed step for language models, some more if they leak.
"""

from __future__ import annotations

import ast

from torch import nn

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.lineage.ancestry import ancestors
from whence.lineage.dependence import by_element, depends_on_later, part_at, reach
from whence.rules.gradient.masking import masked
from whence.rules.gradient.masks import Mask, leaking_mask
from whence.rules.operations import ATTENTION, CONVOLUTIONS, PRODUCTS, RECURRENT, RESHAPES
from whence.rules.rule import Rank, study_rule
from whence.rules.sequences import Predictions, Shift, by_time, series, shifts
from whence.rules.telling import place_of, spot_at, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.replay import Run
from whence.tape.scopes import Scope
from whence.tape.tape import Call

MOST_CALLS = 300
ATTENDS = ATTENTION | PRODUCTS | {"softmax"}
MIXES = ATTENDS | CONVOLUTIONS | RECURRENT


@study_rule("gradient/future-leak", Rank.CAUSE)
def future_leak(study: Study) -> Finding | None:
    for shift in (*shifts(study), *series(study)):
        made = by_time(shift)
        places = [each for each in shift.supervised if each + 2 < shift.length]
        if shift.by != 1 or made is None or not places:
            continue
        step = places[len(places) // 2]
        source = shift.source
        run = study.again(made.value, source, gradients=True, towards={source}, amend=by_element)
        if run is None or not depends_on_later(
            run, made.value, source, index=made.at(step), step=step, time=shift.time
        ):
            continue
        if study.run is not None and _counts(study, shift, made, step):
            return _tell(study, shift, step)
    return None


def _counts(study: Study, shift: Shift, made: Predictions, step: int) -> bool:
    """Whether the loss has a use for the prediction at this place: it may be left out by a mask."""
    run = study.again(shift.loss.value, made.value, gradients=True, towards={made.value})
    size = reach(run, shift.loss.value, (), made.value) if run is not None else None
    return size is not None and bool(size[part_at(made.at(step), size.dim())].any())


def _tell(study: Study, shift: Shift, step: int) -> Finding | None:
    leak = _first(study, shift, step)
    if shift.made is not None and (leak is None or leak.name not in MIXES):
        # A mean over a whole window says next to nothing of its single values.
        return None
    if leak is not None and leak.name in RESHAPES and "shape/reshape-as-permute" in study.told:
        return None
    things = "tokens" if shift.made is None else "values"
    mask = leaking_mask(study, leak, shift.width) if leak is not None else None
    blamed = mask.call if mask is not None else _padding(leak)
    why, fix = _reason(leak, mask)
    here = Spot.of_site(shift.call.site) if shift.call.site is not None else None
    return tell_silent(
        study,
        "gradient/future-leak",
        spot=spot_at(blamed.site if blamed is not None else None)
        or (_where(leak, study) if leak is not None else None)
        or here,
        symptom=here,
        call=leak or shift.call,
        step=study.step,
        verdict=f"the prediction at place {step} depends on later {things}: {leak.name if leak is not None else 'a call'} looks into the future",
        what="labels are the input shifted by one, and the model sees them",
        why=why,
        fix=fix,
        patch=_closed(mask)
        if mask is not None
        else masked(leak)
        if _is_of_its_own(study, shift, leak)
        else None,
        chain=(Spot.of_site(leak.site).hop("what sees the future with it"),)
        if blamed is not None and blamed is not leak and leak is not None and leak.site is not None
        else (),
        replay="bit-identical",
        counterfactual=f"the gradient of prediction {step} at later {things} is not zero",
    )


def _is_of_its_own(study: Study, shift: Shift, leak: Call | None) -> bool:
    """Whether all that attends in this line attends to what is predicted: an encoder may use the same line, and is to see everything."""
    path = study.path(shift.loss.value)
    here = [
        each
        for each in path
        if leak is not None and each.site == leak.site and each.name == leak.name
    ]
    return all(
        any(shift.source in made.operands for made in ancestors(*each.operands)) for each in here
    )


def _padding(leak: Call | None) -> Call | None:
    """The call that laid something round what a convolution gets: it decides which places each window sees."""
    given = (
        leak.operands[0].call
        if leak is not None and leak.name in CONVOLUTIONS and leak.operands
        else None
    )
    return given if given is not None and given.name == "pad" else None


def _reason(leak: Call | None, mask: Mask | None) -> tuple[str, str]:
    """Why the future is seen, and what is to be done about it."""
    name = leak.name if leak is not None else ""
    if mask is not None:
        return _of_mask(mask)
    if name in CONVOLUTIONS:
        return (
            "Its input is padded at its end, so that the window over a place reaches beyond it, to what it is to predict.",
            "Pad on the side of the past only: padding=0, and F.pad(x, ((kernel_size - 1) * dilation, 0)) before it.",
        )
    if name in RECURRENT:
        return (
            "It reads the sequence in both directions: the one from the end has seen what is to be predicted.",
            "Build it with bidirectional=False.",
        )
    if name in ATTENDS:
        return (
            "Without a causal mask every place attends to every other, also to the one that it is to predict.",
            "Give it a causal mask: is_causal=True, or nn.Transformer.generate_square_subsequent_mask(length).",
        )
    return (
        "Its result for a place is made from other places too, also from the one that it is to predict.",
        "Let each place use itself and what is before it only.",
    )


def _of_mask(mask: Mask) -> tuple[str, str]:
    if not mask.by:
        return (
            "The causal mask is laid the wrong way round here: it closes the past, and leaves the future open.",
            "Turn it round (~mask): masked_fill and nn.MultiheadAttention close where it is True, scaled_dot_product_attention and where open.",
        )
    places = "one place" if mask.by == 1 else f"{mask.by} places"
    return (
        f"The mask is made here, and is open {places} too far: a place sees the one that it is to predict.",
        "Let each place see itself and what is before it: tril(...) without a diagonal, or triu(..., diagonal=1) for what is closed.",
    )


def _closed(mask: Mask) -> str | None:
    """`tril(x, diagonal=1)` and `triu(x, diagonal=2)` with a diagonal that is nearer by as many places as are open."""
    site = mask.call.site
    node = site.node() if site is not None else None
    named = (
        next((each.value for each in node.keywords if each.arg == "diagonal"), None)
        if isinstance(node, ast.Call)
        else None
    )
    match named:
        case ast.Constant(value=int(diagonal)) if site is not None and mask.call.name in (
            "tril",
            "triu",
        ):
            return (
                diff_of(replace_node(site.filename, named, str(diagonal - mask.by)))
                if mask.by
                else None
            )
    return None


def _where(leak: Call, study: Study) -> Spot | None:
    """A mask is given where attention is called; convolutions and recurrent layers look ahead as they were built."""
    layer = study.layer_of(leak) if leak.name in CONVOLUTIONS | RECURRENT else None
    built = study.modules.built_at(layer) if layer is not None else ()
    if built:
        return Spot.of_site(built[0])
    scopes = leak.module.lineage() if isinstance(leak.module, Scope) else ()
    attends = any(isinstance(each.module, nn.MultiheadAttention) for each in scopes)
    return Spot.of_site(leak.site) if attends and leak.site is not None else place_of(leak, study)


def _first(study: Study, shift: Shift, step: int) -> Call | None:
    """The first call whose result at a place depends on later ones."""
    path = [
        call for call in study.path(shift.loss.value) if call.number > shift.begins and call.outputs
    ][:MOST_CALLS]
    wanted = [call.outputs[0] for call in path]
    run = study.again(
        *wanted, shift.source, gradients=True, towards={shift.source}, amend=by_element
    )
    if run is None:
        return None
    for call in path:
        if len(_times(call, shift)) == 1 and _looks_ahead(run, shift, step, call):
            return _mixing(run, shift, step, call)
    return None


def _mixing(run: Run, shift: Shift, step: int, call: Call) -> Call:
    """Back from there to the softmax that mixes the places, over results in which time is one of several axes of its size."""
    while call.name != "softmax":
        before = [
            value.call
            for value in call.operands
            if value.call is not None
            and value.call.number > shift.begins
            and _times(value.call, shift)
        ]
        earlier = next((each for each in before if _looks_ahead(run, shift, step, each)), None)
        if earlier is None:
            break
        call = earlier
    return call


def _times(call: Call, shift: Shift) -> list[int]:
    """The axes of a result that may be time."""
    shape = call.outputs[0].shape if call.outputs else ()
    samples = _samples(shape, shift)
    return (
        [axis for axis, size in enumerate(shape) if size == shift.width and axis != samples]
        if len(shape) > 2
        else []
    )


def _samples(shape: tuple[int, ...], shift: Shift) -> int | None:
    """The axis of a result on which the samples stand: the first, or the second where layers have put time before it."""
    return next((axis for axis, size in enumerate(shape[:2]) if size == shift.batch), None)


def _looks_ahead(run: Run, shift: Shift, step: int, call: Call) -> bool:
    """Whether a result depends on later places, whichever of its axes is time."""
    made = call.outputs[0]
    sample = _samples(made.shape, shift)
    if made not in run.contents or sample is None:
        return False
    return all(
        depends_on_later(
            run, made, shift.source, index={sample: 0, axis: step}, step=step, time=shift.time
        )
        for axis in _times(call, shift)
    )
