"""What units and gradients look like over many steps. These rules are notes: their numbers may have good reasons."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import tell_silent

LOOKS = 3
SAMPLES = 64
DEEP = 6
EXPLODED = 100.0
VANISHED = 1e-5


@audit_rule("gradient/dead-units", Rank.GENERAL)
def dead_units(audit: Audit) -> Finding | None:
    """Units never fire over a whole epoch.

    What happened
        Half or more of the units behind a ReLU gave zero for every sample in several looks at steps far apart.
    Why it matters
        What is always zero has no gradient: these units never come back, and the layer is smaller than it seems.
    How it is detected
        The results of each ReLU in recorded steps that are doubled in distance, unit by unit.
    How to fix it
        A smaller learning rate, another initialisation (biases near zero), scaled inputs; LeakyReLU or GELU.
    When it stays silent
        Fewer than half of the units; a few looks only, or none but at the beginning of a long run. It is a note: experts that nobody asks are zero as well.
    Cost
        A replay of a few recorded steps.
    """
    if not audit.final or not audit.units.spans(audit.step):
        return None
    for entry in audit.units.entries.values():
        fired = entry.fired
        if fired is None or entry.looks < LOOKS or entry.samples < SAMPLES or fired.numel() < 4:
            continue
        dead = int((~fired).sum())
        if dead >= 0.5 * fired.numel():
            return tell_silent(
                audit,
                "gradient/dead-units",
                spot=entry.spot,
                step=audit.step,
                op=entry.name,
                phase="forward",
                severity=Severity.INFO,
                confidence=Confidence.HINT,
                verdict=f"{dead} of {fired.numel()} units of {entry.layer} never fired",
                what=f"zero for all {entry.samples} samples of {entry.looks} batches",
                why="Where a ReLU is always zero its derivative is zero too: no gradient brings the unit back.",
                fix="Look at the layer's bias and initialisation, the scale of its inputs, and the learning rate; LeakyReLU or GELU keep a gradient.",
            )
    return None


@audit_rule("gradient/saturated", Rank.GENERAL)
def saturated(audit: Audit) -> Finding | None:
    """Activations sit where their derivative is about zero.

    What happened
        Nearly all results of a tanh or sigmoid are at its ends, look after look.
    Why it matters
        Gradients that pass there are multiplied by almost nothing.
    How it is detected
        The share of elements beyond the bend, in recorded steps that are doubled in distance.
    How to fix it
        Scale the inputs, initialise with smaller weights, normalise before the activation.
    When it stays silent
        Shares below nine tenths. It is a note: gates and last layers may be meant to be at their ends.
    Cost
        A replay of a few recorded steps.
    """
    if not audit.final or not audit.units.spans(audit.step):
        return None
    for entry in audit.units.entries.values():
        if len(entry.flat) >= LOOKS and min(entry.flat) > 0.8:
            return tell_silent(
                audit,
                "gradient/saturated",
                spot=entry.spot,
                step=audit.step,
                op=entry.name,
                phase="forward",
                severity=Severity.INFO,
                confidence=Confidence.HINT,
                verdict=f"{min(entry.flat):.0%} or more of the {entry.name} of {entry.layer} is saturated, in all looks",
                what=f"its derivative is about zero there; {len(entry.flat)} looks",
                why=f"{entry.name} is flat at its ends: what goes back through it is all but gone.",
                fix="Scale the inputs (mean 0, spread 1), use smaller initial weights, or normalise before it.",
            )
    return None


@audit_rule("gradient/vanishing", Rank.GENERAL)
def vanishing(audit: Audit) -> Finding | None:
    """Gradients shrink to nothing on their way back.

    What happened
        The gradients of the first layers are a hundred thousand times smaller than those of the last, look after look.
    Why it matters
        The first layers hardly learn.
    How it is detected
        The mean size of the gradients of each weight, in recorded steps that are doubled in distance.
    How to fix it
        Residual connections, normalisation, ReLU-like activations, an initialisation made for the activation.
    When it stays silent
        Nets with few layers, smaller ratios. It is a note.
    Cost
        One reading of the gradients in a few recorded steps.
    """
    if not audit.final or len(audit.units.depths) < LOOKS or not audit.units.spans(audit.step):
        return None
    looks = [each for each in audit.units.depths if len(each) >= DEEP and each[-1][1] > 0]
    if len(looks) < LOOKS or any(each[0][1] > VANISHED * each[-1][1] for each in looks):
        return None
    (first, small, spot), (last, large, _) = looks[-1][0], looks[-1][-1]
    return tell_silent(
        audit,
        "gradient/vanishing",
        spot=spot,
        step=audit.step,
        phase="backward",
        severity=Severity.INFO,
        confidence=Confidence.HINT,
        verdict=f"gradients vanish with depth: {small:.1e} at {first}, {large:.1e} at {last}",
        what=f"in {len(looks)} looks the first layer's gradients are less than {VANISHED:g} of the last one's",
        why="Each layer multiplies what goes back by a factor below one; over many layers nothing is left.",
        fix="Use residual connections or normalisation, and activations that are not flat (ReLU, GELU) with their own initialisation.",
    )


@audit_rule("gradient/exploding", Rank.GENERAL)
def exploding(audit: Audit) -> Finding | None:
    """Gradients or weights grow without bound.

    What happened
        On their way back through the layers, or through time, gradients grow a hundredfold or more, in several looks.
    Why it matters
        The first layers, or the first steps of a sequence, drown everything else; one such update can undo all that was learnt.
    How it is detected
        In recorded steps that are doubled in distance, the loss is differentiated to the result of each layer: the size at the first
        layer against that at the last. Of a recurrent layer, the size at the first step in time against the last.
    How to fix it
        An initialisation made for the activation, normalisation, residual branches that begin small; clip_grad_norm_ for recurrent
        layers.
    When it stays silent
        Smaller growth, gradients that end up small, a few looks only, gradients that are clipped before they are used; where a custom
        backward that is wrong was told.
    Cost
        A replay of a few recorded steps.
    """
    if not audit.final or any(audit.loop.of(Kind.CLIP)) or "gradient/wrong-custom" in audit.told:
        return None
    seen = [each for each in audit.units.growth if each.factor >= EXPLODED and each.size > 1.0]
    if len(seen) < LOOKS:
        return None
    last = seen[-1]
    return tell_silent(
        audit,
        "gradient/exploding",
        spot=last.spot,
        step=audit.step,
        phase="backward",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"gradients grow {last.factor:.2g} times on their way back through {last.through}",
        what=f"in {len(seen)} looks by a factor of {min(each.factor for each in seen):.2g} or more",
        why="Each layer, or step in time, multiplies what goes back by a factor above one; over many of them that explodes.",
        fix="Use an initialisation made for the activation (kaiming, orthogonal with gain 1), normalisation, or residual branches that "
        "begin small; clip gradients of recurrent layers.",
    )
