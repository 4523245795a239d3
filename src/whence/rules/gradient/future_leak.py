"""A prediction depends on inputs it must not see.

What happened
    A model is trained to predict the next token, or the next value of a series, and its prediction
    at one position depends on later positions: a causal mask is missing, a convolution is padded on
    both sides, or a recurrent layer is bidirectional.
Why it matters
    The model copies the answer from its input. The loss is far too low, and at generation time,
    without the future tokens, the model fails.
How it is detected
    The labels of a sequence loss are the model's input shifted by one, and in the replayed step the
    gradient of one prediction is not zero at later positions. The first call whose result leaks is
    reported; if its mask is open some positions too far, the call that built the mask; if a
    convolution's input was padded before, the padding.
How to fix it
    Add a causal mask: `is_causal=True` or `generate_square_subsequent_mask`. Pad only before the
    first position. Use one direction.
When it stays silent
    For encoders, taggers, masked language models and bidirectional nets whose labels are not their
    shifted input; for prefixes without labels; for batch or window statistics, as in normalisation
    layers.
Cost
    One backward through a replayed step for language models, a few more if they leak.
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
from whence.rules.telling import place_of, silent_finding, spot_at
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
            return _report(study, shift, step)
    return None


def _counts(study: Study, shift: Shift, made: Predictions, step: int) -> bool:
    """Whether the loss uses the prediction at this position: a mask may exclude it."""
    run = study.again(shift.loss.value, made.value, gradients=True, towards={made.value})
    size = reach(run, shift.loss.value, (), made.value) if run is not None else None
    return size is not None and bool(size[part_at(made.at(step), size.dim())].any())


def _report(study: Study, shift: Shift, step: int) -> Finding | None:
    leak = _first(study, shift, step)
    if shift.made is not None and (leak is None or leak.name not in MIXES):
        # A mean over a whole window reveals next to nothing about single values.
        return None
    if leak is not None and leak.name in RESHAPES and "shape/reshape-as-permute" in study.told:
        return None
    things = "tokens" if shift.made is None else "values"
    mask = leaking_mask(study, leak, shift.width) if leak is not None else None
    blamed = mask.call if mask is not None else _padding(leak)
    why, fix = _reason(leak, mask)
    here = Spot.of_site(shift.call.site) if shift.call.site is not None else None
    return silent_finding(
        study,
        "gradient/future-leak",
        spot=spot_at(blamed.site if blamed is not None else None)
        or (_where(leak, study) if leak is not None else None)
        or here,
        symptom=here,
        call=leak or shift.call,
        step=study.step,
        verdict=f"the prediction at position {step} depends on later {things} through "
        f"{leak.name if leak is not None else 'an unknown call'}",
        what="the labels are the input shifted by one, and the model sees them",
        why=why,
        fix=fix,
        patch=_closed(mask)
        if mask is not None
        else masked(leak)
        if _serves_only_the_decoder(study, shift, leak)
        else None,
        chain=(Spot.of_site(leak.site).hop("this call then sees later positions"),)
        if blamed is not None and blamed is not leak and leak is not None and leak.site is not None
        else (),
        replay="bit-identical",
        counterfactual=f"the gradient of prediction {step} with respect to later {things} is not "
        "zero",
    )


def _serves_only_the_decoder(study: Study, shift: Shift, leak: Call | None) -> bool:
    """Whether this line only serves the decoder: an encoder on the same line may see everything."""
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
    """The `pad` call before a convolution: it decides which positions each window sees."""
    before = (
        leak.operands[0].call
        if leak is not None and leak.name in CONVOLUTIONS and leak.operands
        else None
    )
    return before if before is not None and before.name == "pad" else None


def _reason(leak: Call | None, mask: Mask | None) -> tuple[str, str]:
    """Why later positions are visible, and how to fix it."""
    name = leak.name if leak is not None else ""
    if mask is not None:
        return _of_mask(mask)
    if name in CONVOLUTIONS:
        return (
            "The convolution's input is padded at its end, so the window at each position "
            "includes the one it should predict.",
            "Pad on the side of the past only: padding=0, and F.pad(x, ((kernel_size - 1) * "
            "dilation, 0)) before the convolution.",
        )
    if name in RECURRENT:
        return (
            f"{name} reads the sequence in both directions. The backward direction has already "
            "seen the value to predict.",
            "Build the layer with bidirectional=False.",
        )
    if name in ATTENDS:
        return (
            "Without a causal mask every position attends to every other, including the one it "
            "should predict.",
            "Pass a causal mask: is_causal=True, or "
            "nn.Transformer.generate_square_subsequent_mask(length).",
        )
    return (
        "The result at one position is computed from other positions too, including the one it "
        "should predict.",
        "Compute each position from itself and earlier positions only.",
    )


def _of_mask(mask: Mask) -> tuple[str, str]:
    if not mask.by:
        return (
            "The causal mask is inverted here: it masks the past and leaves the future visible.",
            "Invert the mask (~mask): masked_fill and nn.MultiheadAttention mask where it is "
            "True, scaled_dot_product_attention and where keep where it is True.",
        )
    positions = "one position" if mask.by == 1 else f"{mask.by} positions"
    return (
        f"The mask built here is open {positions} too far, so a position sees the one it should "
        "predict.",
        "Let each position see itself and earlier ones: tril(...) without a diagonal, or "
        "triu(..., diagonal=1) for the masked part.",
    )


def _closed(mask: Mask) -> str | None:
    """`tril(x, diagonal=1)` or `triu(x, diagonal=2)` with the diagonal moved back by the error."""
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
    """Where to fix it: masks where attention is called, other layers where they are built."""
    layer = study.layer_of(leak) if leak.name in CONVOLUTIONS | RECURRENT else None
    built = study.modules.built_at(layer) if layer is not None else ()
    if built:
        return Spot.of_site(built[0])
    scopes = leak.module.lineage() if isinstance(leak.module, Scope) else ()
    attends = any(isinstance(each.module, nn.MultiheadAttention) for each in scopes)
    return Spot.of_site(leak.site) if attends and leak.site is not None else place_of(leak, study)


def _first(study: Study, shift: Shift, step: int) -> Call | None:
    """The first call whose result at a position depends on later ones."""
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
    """Back from there to the softmax over positions, where time may be one of several axes."""
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
    """The axes of a result that may be the time axis."""
    shape = call.outputs[0].shape if call.outputs else ()
    samples = _samples(shape, shift)
    return (
        [axis for axis, size in enumerate(shape) if size == shift.width and axis != samples]
        if len(shape) > 2
        else []
    )


def _samples(shape: tuple[int, ...], shift: Shift) -> int | None:
    """The sample axis of a result: the first, or the second in time-first layouts."""
    return next((axis for axis, size in enumerate(shape[:2]) if size == shift.batch), None)


def _looks_ahead(run: Run, shift: Shift, step: int, call: Call) -> bool:
    """Whether a result depends on later positions, whichever of its axes is time."""
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
