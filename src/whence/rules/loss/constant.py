"""The model predicts one value for every input.

What happened
    Over many steps the predictions of a batch hardly differ from sample to sample, while the targets do.
Why it matters
    The loss stands where guessing the mean, or the shares of the classes, would put it. Nothing of the input reaches the output.
How it is detected
    The spread of the predictions over the samples of a batch, against that of the targets, in recorded steps that are doubled in distance.
    Where they are equal to the last bit, the step is run again to see which call made them so.
How to fix it
    Find where the input is lost: a layer that averages it away, units that are all dead, a weight decay or a learning rate that is too
    large, a loss that broadcasts.
When it stays silent
    The first dozen steps, targets that hardly vary, predictions that begin to differ; where a cause was told. It is a note.
Cost
    A replay of a few recorded steps.
"""

from __future__ import annotations

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import place_of, tell_silent

LOOKS = 4
CONSTANT = 0.01
CAUSES = ("loss/", "gradient/", "optimizer/")
"""What is wrong with the loss, the gradients or the loop shows in the predictions: once it is told, these are no news."""


@audit_rule("loss/constant-prediction", Rank.GENERAL)
def constant_prediction(audit: Audit) -> Finding | None:
    if not audit.final or any(each.startswith(CAUSES) for each in audit.told):
        return None
    for spot, seen in audit.units.spreads.items():
        late = seen[LOOKS // 2 :]
        if len(seen) < LOOKS or max(late) > CONSTANT:
            continue
        made = audit.units.alike.get(spot)
        return tell_silent(
            audit,
            "loss/constant-prediction",
            spot=place_of(made, audit) if made is not None else spot,
            symptom=spot,
            step=audit.step,
            call=made,
            phase="forward",
            severity=Severity.INFO,
            confidence=Confidence.HINT,
            verdict=f"the model predicts the same for every sample: {made.name} is given different ones and makes them alike"
            if made is not None
            else "the model predicts nearly the same for every sample",
            what=f"in {len(late)} looks predictions varied by less than {max(late):.2g} of what the targets do",
            why="What reaches the loss does not depend on the sample. Either the input is lost on the way, or a constant is the best that is left to learn.",
            fix="Look where samples become alike: averaged or normalised away, dead units, a weight decay that outweighs the loss, a loss that broadcasts.",
        )
    return None
