"""A loss that was wrapped anew, and hangs on nothing."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.finding import Finding, Hop
from whence.ledgers.study import Study
from whence.lineage.following.trace import SourceTrace
from whence.lineage.properties import Property
from whence.rules.gradient.flow import WRAPS, joins, stacked, unwrapped
from whence.rules.gradient.no_graph import cut_text
from whence.rules.rule import Rank, study_rule
from whence.rules.telling import tell_silent
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.tape import Call, Value

UNWRAP = "Call backward on the loss itself, without wrapping it."


@study_rule("gradient/fake-leaf", Rank.CAUSE)
def fake_leaf(study: Study) -> Finding | None:
    """The loss was re-wrapped, so backward reaches nothing.

    What happened
        backward was called on a tensor that hangs on no graph: a loss that was wrapped anew with requires_grad=True, or on which
        requires_grad was switched on. The message "does not require grad" is gone, and so is the way to the weights.
    Why it matters
        backward gives the loss itself a gradient of 1, and no weight gets any: nothing is learnt.
    How it is detected
        backward is called on a leaf that no optimizer owns, and no weight of the optimizer has a gradient afterwards.
    How to fix it
        Do not wrap the loss; take away what cut it from the graph before.
    When it stays silent
        If the optimizer's weights have gradients.
    Cost
        A look at the loss when backward begins.
    """
    own = [each for group in study.optimizer.param_groups for each in group["params"]]
    if not study.leaf_losses or any(study.gradient_of(each) is not None for each in own):
        return None
    value, stack = study.leaf_losses[-1]
    wrap = _wrapping(study, value)
    inside = wrap.operands[0] if wrap is not None and wrap.operands else _same_memory(study, value)
    several = wrap is not None and joins(wrap)
    # A number that was wrapped has no way back to the weights.
    is_tensor = wrap is None or bool(wrap.operands)
    cut = _cut_before(inside)
    spot = (
        Spot.of_site(wrap.site)
        if wrap is not None and wrap.site is not None
        else _returned(study, value)
    )
    symptom = Spot.of_site(stack[0]) if stack else None
    chain: tuple[Hop, ...] = ()
    before = ""
    if cut is not None and cut.site is not None:
        hop = Spot.of_site(cut.site).hop(f"{cut_text(cut)} cut it from the graph")
        chain, before = (
            (hop,),
            f" It has no graph since {cut_text(cut)} in {hop.file}:{hop.line}: take that away.",
        )
    return tell_silent(
        study,
        "gradient/fake-leaf",
        spot=spot,
        symptom=symptom,
        step=study.step,
        call=wrap,
        verdict="the loss was wrapped anew: backward reaches no weight",
        what="no weight of the optimizer has a gradient",
        why="A tensor that is made with requires_grad=True, or has it switched on, begins a graph of its own: nothing before it is part of that.",
        fix=("Join the losses with torch.stack, which keeps their graphs." if several else UNWRAP)
        + before,
        chain=chain,
        patch=_bare(spot, several)
        if spot is not None and is_tensor and inside is not value and inside.requires_grad
        else None,
    )


def _bare(spot: Spot, several: bool) -> str | None:
    """The loss as it was before something was wrapped around it."""
    match node := spot.node():
        case ast.Call(args=[kept]) if last_name(node.func) in WRAPS and not isinstance(
            kept, ast.Starred
        ):
            return (
                stacked(spot.filename, node, kept)
                if several
                else unwrapped(spot.filename, node, kept)
            )
    return None


def _same_memory(study: Study, value: Value) -> Value:
    """What a Variable was made of, which torch shows to nobody: it has its memory."""
    made = (
        each
        for call in reversed(study.calls)
        for each in call.outputs
        if each.storage == value.storage
    )
    return next((each for each in made if each is not value), value)


def _wrapping(study: Study, value: Value) -> Call | None:
    """The call that made a leaf of the loss, or switched its gradient on."""
    switched = [
        call
        for call in study.calls
        if call.name in ("requires_grad_", "requires_grad.__set__")
        and any(each is value for each in call.operands)
    ]
    if switched:
        return switched[-1]
    return value.call


def _returned(study: Study, value: Value) -> Spot | None:
    """Where a loss comes from that no call on the tape has made: the expression that the program's source has for it."""
    tensor = value.tensor
    return (
        SourceTrace(Wrapped(), study.frames).follow_object(tensor).spot
        if tensor is not None
        else None
    )


@dataclass(frozen=True, slots=True)
class Wrapped(Property):
    """It was wrapped as a Variable, which torch does not show to anybody."""

    def is_set_by(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in WRAPS

    def describe(self) -> str:
        return "wrapped anew"


def _cut_before(value: Value) -> Call | None:
    """The nearest call before a value that had something with gradient and gave something without."""
    pending, seen = [value], set[int]()
    while pending:
        call = pending.pop(0).call
        if call is None or id(call) in seen or call.forgotten:
            continue
        seen.add(id(call))
        if any(each.requires_grad for each in call.operands) and not any(
            each.requires_grad for each in call.outputs
        ):
            return call
        pending.extend(call.operands)
    return None
