"""The model predicts one value for every input.

What happened
    Over many steps the predictions of a batch hardly differ from sample to sample, while the targets do.
Why it matters
    The loss stands where guessing the mean, or the shares of the classes, would put it. Nothing of the input reaches the output.
How it is detected
    The spread of the predictions over the samples of a batch, against that of the targets, in recorded steps that are doubled in distance.
    The step is run again, without dropout, to see which call was given samples that differ and made them the same, but for rounding.
How to fix it
    Find where the input is lost: a layer that averages it away, units that are all dead, a weight decay or a learning rate that is too
    large, a loss that broadcasts.
When it stays silent
    The first dozen steps, targets that hardly vary, predictions that begin to differ; where a cause was told. It is a note where no call makes
    them the same.
Cost
    A replay of a few recorded steps.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.finding import Confidence, Finding, Hop, Severity
from whence.ledgers.alike import Alike
from whence.ledgers.audit import Audit
from whence.ledgers.units import CONSTANT, RELUS
from whence.rules.operations import COMPARISONS, SAME_NUMBERS
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import place_of, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.tape import Value

LOOKS = 4
SIMPLE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)
TURNED = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">"}
CAUSES = ("loss/", "gradient/", "optimizer/")
"""What is wrong with the loss, the gradients or the loop shows in the predictions: once it is told, these are no news."""
DEAD = "gradient/dead-units"
WHY = "What reaches the loss does not depend on the sample."
OR_LEARNT = "Either the input is lost on the way, or a constant is the best that is left to learn."
FIX = (
    "Look where samples become alike: averaged or normalised away, dead units, a weight decay that outweighs the loss, a loss that "
    "broadcasts."
)


@audit_rule("loss/constant-prediction", Rank.GENERAL)
def constant_prediction(audit: Audit) -> Finding | None:
    if not audit.final:
        return None
    causes = {each for each in audit.told if each.startswith(CAUSES)}
    for spot, seen in audit.units.spreads.items():
        late = seen[LOOKS // 2 :]
        if len(seen) < LOOKS or max(late) > CONSTANT:
            continue
        alike = audit.units.alike.get(spot)
        # Of samples that are alike already, units fire for all or for none.
        follows = {DEAD} if alike is not None and alike.call.name not in RELUS else set()
        if causes - follows:
            continue
        told = _told(alike, audit)
        return tell_silent(
            audit,
            "loss/constant-prediction",
            spot=told.spot or spot,
            symptom=spot,
            step=audit.step,
            call=alike.call if alike is not None else None,
            phase="forward",
            severity=Severity.WARNING if alike is not None else Severity.INFO,
            confidence=Confidence.LIKELY if alike is not None else Confidence.HINT,
            verdict=told.verdict,
            what=f"in {len(late)} looks predictions "
            + (
                f"varied by {max(late):.2g} of what the targets do, at most"
                if max(late)
                else "did not vary at all"
            ),
            why=told.why,
            fix=told.fix,
            patch=told.patch,
            chain=told.chain,
        )
    return None


@dataclass(frozen=True, slots=True)
class _Told:
    spot: Spot | None
    verdict: str
    why: str
    fix: str
    patch: str | None = None
    chain: tuple[Hop, ...] = ()


def _told(alike: Alike | None, audit: Audit) -> _Told:
    if alike is None:
        return _Told(
            None, "the model predicts nearly the same for every sample", f"{WHY} {OR_LEARNT}", FIX
        )
    name, place = alike.call.name, place_of(alike.call, audit)
    verdict = f"the model predicts the same for every sample: {name} is given different ones and makes them alike"
    compared = _compared(alike.mask)
    if compared is None:
        return _Told(place, verdict, WHY, FIX)
    return _Told(
        Spot.of_site(compared),
        "the model predicts the same for every sample: a mask is 0 wherever what it is laid over is not",
        f"{WHY} Both have numbers other than 0, and nowhere at the same place: the mask keeps what was to be left out.",
        "Turn the comparison round that makes the mask.",
        _turned(Spot.of_site(compared)),
        (place.hop(f"{name} leaves nothing of it"),) if place is not None else (),
    )


def _compared(mask: Value | None) -> Site | None:
    """Where the mask was decided on."""
    call = mask.call if mask is not None else None
    while call is not None and call.name in SAME_NUMBERS and call.operands and not call.forgotten:
        call = call.operands[0].call
    return call.site if call is not None and call.name in COMPARISONS else None


def _turned(spot: Spot) -> str | None:
    match spot.node():
        case (
            ast.Compare(
                left=ast.expr() as left, ops=[op], comparators=[ast.expr() as right]
            ) as node
        ) if type(op) in TURNED and isinstance(left, SIMPLE) and isinstance(right, SIMPLE):
            sides = (text_of(spot.filename, each) for each in (left, right))
            return diff_of(replace_node(spot.filename, node, f" {TURNED[type(op)]} ".join(sides)))
    return None
