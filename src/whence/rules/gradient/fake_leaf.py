"""A loss that was wrapped in a new tensor and has lost its graph."""

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
from whence.rules.telling import silent_finding
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.tape import Call, Value

UNWRAP = "Call backward on the loss itself, without wrapping it."


@study_rule("gradient/fake-leaf", Rank.CAUSE)
def fake_leaf(study: Study) -> Finding | None:
    """The loss was re-wrapped, so backward reaches no weight.

    What happened
        backward was called on a tensor without a graph: a loss wrapped in a new tensor with
        requires_grad=True, or one whose requires_grad was switched on. This silences the error
        "does not require grad", but the path to the weights is lost.
    Why it matters
        backward gives the loss itself a gradient of 1, and no weight receives one: nothing is
        learned.
    How it is detected
        backward is called on a leaf that no optimizer owns, and no weight of the optimizer has a
        gradient afterwards.
    How to fix it
        Do not wrap the loss. Remove the call that detached it from the graph before.
    When it stays silent
        If the optimizer's weights have gradients.
    Cost
        A check of the loss when backward begins.
    """
    own = [each for group in study.optimizer.param_groups for each in group["params"]]
    if not study.leaf_losses or any(study.gradient_of(each) is not None for each in own):
        return None
    value, stack = study.leaf_losses[-1]
    wrap = _wrapping(study, value)
    inside = wrap.operands[0] if wrap is not None and wrap.operands else _same_memory(study, value)
    several = wrap is not None and joins(wrap)
    # A Python number that was wrapped has no path back to the weights.
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
        hop = Spot.of_site(cut.site).hop(f"{cut_text(cut)} detached it from the graph")
        chain, before = (
            (hop,),
            f" Also remove {cut_text(cut)} at {hop.file}:{hop.line}, which detached the loss "
            "before.",
        )
    return silent_finding(
        study,
        "gradient/fake-leaf",
        spot=spot,
        symptom=symptom,
        step=study.step,
        call=wrap,
        verdict="the loss was wrapped in a new tensor: backward reaches no weight",
        what="no weight of the optimizer has a gradient",
        why="A tensor created with requires_grad=True, or with it switched on later, starts a "
        "new graph. Earlier computations are not part of it.",
        fix=("Join the losses with torch.stack, which keeps their graphs." if several else UNWRAP)
        + before,
        chain=chain,
        patch=_bare(spot, several)
        if spot is not None and is_tensor and inside is not value and inside.requires_grad
        else None,
    )


def _bare(spot: Spot, several: bool) -> str | None:
    """A diff that removes the wrapper around the loss."""
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
    """The value that a Variable wraps: found by its storage, as this is not dispatched."""
    made = (
        each
        for call in reversed(study.calls)
        for each in call.outputs
        if each.storage == value.storage
    )
    return next((each for each in made if each is not value), value)


def _wrapping(study: Study, value: Value) -> Call | None:
    """The call that made the loss a leaf, or switched its requires_grad on."""
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
    """The source expression of a loss that no call on the tape produced."""
    tensor = value.tensor
    return (
        SourceTrace(Wrapped(), study.frames).follow_object(tensor).spot
        if tensor is not None
        else None
    )


@dataclass(frozen=True, slots=True)
class Wrapped(Property):
    """Wrapped as a Variable, which PyTorch does not dispatch."""

    def is_set_by(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in WRAPS

    def describe(self) -> str:
        return "wrapped in a new tensor"


def _cut_before(value: Value) -> Call | None:
    """The nearest earlier call with an operand that requires grad and a result that does not."""
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
