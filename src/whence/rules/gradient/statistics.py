"""Activations and gradients over many steps. Most of these rules are only notes."""

from __future__ import annotations

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding

CHECKS = 3
SAMPLES = 64
DEEP = 6
EXPLODED = 100.0
VANISHED = 1e-5


@audit_rule("gradient/dead-units", Rank.GENERAL)
def dead_units(audit: Audit) -> Finding | None:
    """Units never fire over a whole epoch.

    What happened
        Half or more of the units after a ReLU were zero for every sample in several checks at
        distant steps.
    Why it matters
        A unit that is always zero has no gradient: it never recovers, and the layer is smaller than
        it seems.
    How it is detected
        The results of each ReLU, unit by unit, in recorded steps at doubling intervals.
    How to fix it
        Use a smaller learning rate, another initialisation (biases near zero), scaled inputs; or
        LeakyReLU or GELU.
    When it stays silent
        With fewer than half of the units dead; after only a few checks, or only early ones in a
        long run. It is a note: experts that are never selected are zero as well.
    Cost
        A replay of a few recorded steps.
    """
    if not audit.final or not audit.units.spans(audit.step):
        return None
    for entry in audit.units.entries.values():
        fired = entry.fired
        if fired is None or entry.looks < CHECKS or entry.samples < SAMPLES or fired.numel() < 4:
            continue
        dead = int((~fired).sum())
        if dead >= 0.5 * fired.numel():
            return silent_finding(
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
                why="Where a ReLU is always zero, its derivative is zero too: no gradient can "
                "revive the unit.",
                fix="Check the layer's bias and initialisation, the scale of its inputs, and the "
                "learning rate. LeakyReLU and GELU keep a gradient.",
            )
    return None


@audit_rule("gradient/saturated", Rank.GENERAL)
def saturated(audit: Audit) -> Finding | None:
    """Activations are saturated: their derivative is almost zero.

    What happened
        Nearly all results of a tanh or sigmoid are at the ends of its range, in every check.
    Why it matters
        Gradients that pass through are multiplied by almost zero.
    How it is detected
        The share of saturated elements in recorded steps at doubling intervals.
    How to fix it
        Scale the inputs, initialise with smaller weights, normalise before the activation.
    When it stays silent
        With a share of 80 % or less. It is a note: gates and last layers may be saturated on
        purpose.
    Cost
        A replay of a few recorded steps.
    """
    if not audit.final or not audit.units.spans(audit.step):
        return None
    for entry in audit.units.entries.values():
        if len(entry.flat) >= CHECKS and min(entry.flat) > 0.8:
            return silent_finding(
                audit,
                "gradient/saturated",
                spot=entry.spot,
                step=audit.step,
                op=entry.name,
                phase="forward",
                severity=Severity.INFO,
                confidence=Confidence.HINT,
                verdict=f"{min(entry.flat):.0%} or more of the {entry.name} of {entry.layer} is "
                "saturated in every check",
                what=f"its derivative is almost zero there, in {len(entry.flat)} checks",
                why=f"{entry.name} is flat at its ends: almost no gradient passes through it.",
                fix="Scale the inputs (mean 0, standard deviation 1), use smaller initial "
                f"weights, or normalise before {entry.name}.",
            )
    return None


@audit_rule("gradient/vanishing", Rank.GENERAL)
def vanishing(audit: Audit) -> Finding | None:
    """Gradients vanish towards the first layers.

    What happened
        The gradients of the first layers are 100,000 times smaller than those of the last, in every
        check.
    Why it matters
        The first layers hardly learn.
    How it is detected
        The mean size of each weight's gradient in recorded steps at doubling intervals.
    How to fix it
        Use residual connections, normalisation, ReLU-like activations, and an initialisation made
        for the activation.
    When it stays silent
        For networks with few layers, and for smaller ratios. It is a note.
    Cost
        One read of the gradients in a few recorded steps.
    """
    if not audit.final or len(audit.units.depths) < CHECKS or not audit.units.spans(audit.step):
        return None
    checks = [each for each in audit.units.depths if len(each) >= DEEP and each[-1][1] > 0]
    if len(checks) < CHECKS or any(each[0][1] > VANISHED * each[-1][1] for each in checks):
        return None
    (first, small, spot), (last, large, _) = checks[-1][0], checks[-1][-1]
    return silent_finding(
        audit,
        "gradient/vanishing",
        spot=spot,
        step=audit.step,
        phase="backward",
        severity=Severity.INFO,
        confidence=Confidence.HINT,
        verdict=f"gradients vanish with depth: {small:.1e} at {first}, {large:.1e} at {last}",
        what=f"in {len(checks)} checks the first layer's gradients are below {VANISHED:g} times "
        "those of the last",
        why="Each layer multiplies the gradient by a factor below one. Over many layers almost "
        "nothing is left.",
        fix="Use residual connections or normalisation, and activations that are not flat (ReLU, "
        "GELU) with a matching initialisation.",
    )


@audit_rule("gradient/exploding", Rank.GENERAL)
def exploding(audit: Audit) -> Finding | None:
    """Gradients or weights grow without bound.

    What happened
        Gradients grow a hundredfold or more on the way back through the layers, or through time, in
        several checks.
    Why it matters
        The first layers, or the first steps of a sequence, dominate the update; one such update can
        undo earlier progress.
    How it is detected
        In recorded steps at doubling intervals, the loss is differentiated with respect to the
        result of each layer, and the size at the first layer is compared with the last. For a
        recurrent layer, the first time step is compared with the last.
    How to fix it
        Use an initialisation made for the activation, normalisation, residual branches that start
        small; `clip_grad_norm_` for recurrent layers.
    When it stays silent
        For smaller growth, gradients that stay small, too few checks, and gradients that are
        clipped before use; where a wrong custom backward was reported.
    Cost
        A replay of a few recorded steps.
    """
    if not audit.final or any(audit.loop.of(Kind.CLIP)) or "gradient/wrong-custom" in audit.told:
        return None
    seen = [each for each in audit.units.growth if each.factor >= EXPLODED and each.size > 1.0]
    if len(seen) < CHECKS:
        return None
    last = seen[-1]
    return silent_finding(
        audit,
        "gradient/exploding",
        spot=last.spot,
        step=audit.step,
        phase="backward",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"gradients grow by a factor of {last.factor:.2g} on the way back through "
        f"{last.through}",
        what=f"in {len(seen)} checks by a factor of {min(each.factor for each in seen):.2g} or "
        "more",
        why="Each layer, or time step, multiplies the gradient by a factor above one. Over many "
        "of them the gradient explodes.",
        fix="Use an initialisation made for the activation (kaiming, orthogonal with gain 1), "
        "normalisation, or residual branches that start small; clip the gradients of recurrent "
        "layers.",
    )
