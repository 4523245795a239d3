"""The model predicts one value for every input.

What happened
    Over many steps the predictions of a batch hardly differ from sample to sample, while the
    targets do.
Why it matters
    The loss stays where predicting the mean, or the class frequencies, would put it. The output
    does not depend on the input.
How it is detected
    The spread of the predictions over the samples of a batch is compared with that of the targets,
    in recorded steps at doubling intervals. The step is replayed, without dropout, to find the call
    that receives different samples and returns equal ones.
How to fix it
    Find where the input is lost: a layer that averages it away, dead units, a weight decay or
    learning rate that is too large, a loss that broadcasts.
When it stays silent
    In the first dozen steps, for targets that hardly vary, for predictions that begin to differ,
    and where a cause was reported. It is a note where no call makes the samples equal.
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
from whence.rules.telling import place_of, silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.tape import Value

CHECKS = 4
SIMPLE = (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant)
INVERSE = {ast.Eq: "!=", ast.NotEq: "==", ast.Lt: ">=", ast.GtE: "<", ast.Gt: "<=", ast.LtE: ">"}
CAUSES = ("loss/", "gradient/", "optimizer/")
"""Errors in the loss, the gradients or the loop cause constant predictions, so they come first."""
DEAD = "gradient/dead-units"
WHY = "The values that reach the loss do not depend on the sample."
OR_LEARNT = "Either the input is lost on the way, or a constant is the best the model can learn."
FIX = (
    "Find where samples become equal: averaging or normalisation, dead units, a weight decay "
    "that outweighs the loss, a loss that broadcasts."
)


@audit_rule("loss/constant-prediction", Rank.GENERAL)
def constant_prediction(audit: Audit) -> Finding | None:
    if not audit.final:
        return None
    causes = {each for each in audit.told if each.startswith(CAUSES)}
    for spot, seen in audit.units.spreads.items():
        late = seen[CHECKS // 2 :]
        if len(seen) < CHECKS or max(late) > CONSTANT:
            continue
        alike = audit.units.alike.get(spot)
        # For samples that are already equal, a unit fires for all or for none.
        follows = {DEAD} if alike is not None and alike.call.name not in RELUS else set()
        if causes - follows:
            continue
        text = _text(alike, audit)
        return silent_finding(
            audit,
            "loss/constant-prediction",
            spot=text.spot or spot,
            symptom=spot,
            step=audit.step,
            call=alike.call if alike is not None else None,
            phase="forward",
            severity=Severity.WARNING if alike is not None else Severity.INFO,
            confidence=Confidence.LIKELY if alike is not None else Confidence.HINT,
            verdict=text.verdict,
            what=f"in {len(late)} checks predictions "
            + (
                f"varied by at most {max(late):.2g} times the spread of the targets"
                if max(late)
                else "did not vary at all"
            ),
            why=text.why,
            fix=text.fix,
            patch=text.patch,
            chain=text.chain,
        )
    return None


@dataclass(frozen=True, slots=True)
class _Text:
    spot: Spot | None
    verdict: str
    why: str
    fix: str
    patch: str | None = None
    chain: tuple[Hop, ...] = ()


def _text(alike: Alike | None, audit: Audit) -> _Text:
    if alike is None:
        return _Text(
            None, "the model predicts nearly the same for every sample", f"{WHY} {OR_LEARNT}", FIX
        )
    name, place = alike.call.name, place_of(alike.call, audit)
    verdict = f"the model predicts the same for every sample: {name} makes different samples equal"
    compared = _compared(alike.mask)
    if compared is None:
        return _Text(place, verdict, WHY, FIX)
    return _Text(
        Spot.of_site(compared),
        "the model predicts the same for every sample: the mask is 0 wherever its input is not",
        f"{WHY} The mask and its input have nonzero values, but never at the same position, so "
        "the product is 0.",
        "Invert the comparison that computes the mask.",
        _inverted(Spot.of_site(compared)),
        (place.hop(f"{name} gives 0 everywhere"),) if place is not None else (),
    )


def _compared(mask: Value | None) -> Site | None:
    """The comparison that computed the mask."""
    call = mask.call if mask is not None else None
    while call is not None and call.name in SAME_NUMBERS and call.operands and not call.forgotten:
        call = call.operands[0].call
    return call.site if call is not None and call.name in COMPARISONS else None


def _inverted(spot: Spot) -> str | None:
    match spot.node():
        case (
            ast.Compare(
                left=ast.expr() as left, ops=[op], comparators=[ast.expr() as right]
            ) as node
        ) if type(op) in INVERSE and isinstance(left, SIMPLE) and isinstance(right, SIMPLE):
            sides = (text_of(spot.filename, each) for each in (left, right))
            return diff_of(replace_node(spot.filename, node, f" {INVERSE[type(op)]} ".join(sides)))
    return None
