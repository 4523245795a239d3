"""The loss is not connected to any parameter.

What happened
    backward was called on a tensor that depends on no parameter: detach, .data, .item(), no_grad,
    argmax or a new torch.tensor cut the graph, or all parameters are frozen. Or torch.autograd.grad
    was called for a tensor that does not require grad.
Why it matters
    The popular workaround, loss.requires_grad = True, silences the error and trains nothing.
How it is detected
    The tape is followed back from the loss to the nearest call with an input that requires grad and
    a result that does not. Where an earlier line switched gradients off or froze all weights, that
    line is searched for in the source.
How to fix it
    Remove the call that cuts the graph.
When it stays silent
    If the loss, and the tensors to differentiate with respect to, require grad.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from enum import Enum, auto

import torch
from torch import nn

from whence.finding import Confidence, Finding, Hop, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.following.trace import SourceTrace
from whence.lineage.properties import Property
from whence.lineage.switches import frozen_at, left_off, switch_around, way_out
from whence.rules.gradient.subject import differentiated
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.failed import FailedCall
from whence.tape.tape import OUT_OF_TORCH, Call, flatten

FREEZES = ("requires_grad_", "requires_grad.__set__")


class Kind(Enum):
    CALL = auto()
    """A call with an input that requires grad gave a result that does not."""
    OFF = auto()
    """Gradients were switched off."""
    FROZEN = auto()
    """No weight that takes part requires grad."""
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Cut:
    """Where the path from the parameters to the loss ends."""

    kind: Kind
    call: Call | None = None
    spot: Spot | None = None


@rule("gradient/no-graph")
def no_graph(failed: FailedCall) -> Finding | None:
    loss = differentiated(failed)
    if loss is None or loss.requires_grad:
        return _report_constant(failed) if loss is not None and failed.name == "grad" else None
    cut = _cut(failed, loss)
    was_seen = failed.value(loss).call is not None or cut.kind is not Kind.UNKNOWN
    return failure_finding(
        failed,
        "gradient/no-graph",
        verdict=f"the loss has no graph: {_verdict(cut)}",
        spot=cut.spot,
        why=_why(cut),
        fix=_fix(cut),
        patch=_patch(cut),
        chain=_leaving(cut),
        confidence=Confidence.PROVEN if was_seen else Confidence.LIKELY,
        operands=(Operand("loss", describe(loss)),),
    )


def _report_constant(failed: FailedCall) -> Finding | None:
    """`torch.autograd.grad(y, x)`: there is a graph, but `x` is not part of it."""
    wanted = failed.argument(1, "inputs")
    given = next(
        (
            each
            for each in flatten(wanted)
            if isinstance(each, torch.Tensor) and not each.requires_grad
        ),
        None,
    )
    if given is None:
        return None
    made = failed.value(given).call
    spot = _place(made) if made is not None and not made.forgotten else None
    cut = made if spot is not None and made is not None and _cuts(made) else None
    return failure_finding(
        failed,
        "gradient/no-graph",
        verdict="torch.autograd.grad is called for an input that does not require grad",
        spot=spot or SourceTrace(IsConstant(), failed.frames).follow_object(given).spot,
        why="Autograd only tracks tensors that require grad when they are used. Nothing set "
        "requires_grad on this one."
        if cut is None
        else f"The input of {cut_text(cut)} requires grad, its result does not.",
        fix="Set requires_grad before anything is computed from the tensor: requires_grad=True "
        "where it is created, or x.requires_grad_()."
        if cut is None
        else f"Remove {cut_text(cut)}, or call requires_grad_() on its result before it is used.",
        operands=(Operand("input", describe(given)),),
    )


@dataclass(frozen=True, slots=True)
class IsConstant(Property):
    """Does not require grad."""

    def holds(self, thing: object) -> bool | None:
        return not thing.requires_grad if isinstance(thing, torch.Tensor) else None

    def describe(self) -> str:
        return "without a gradient"


def _cut(failed: FailedCall, loss: torch.Tensor) -> Cut:
    made_from = [call for call in ancestors(failed.value(loss)) if not call.forgotten]
    call = _cutting(made_from) or _left_torch(failed, made_from)
    if call is not None and not call.grad_mode and call.name not in ("detach", "data.__get__"):
        return Cut(Kind.OFF, call, switch_around(call) or left_off() or _place(call))
    if call is not None:
        return Cut(Kind.CALL, call, _place(call))
    if not torch.is_grad_enabled():
        return Cut(Kind.OFF, None, left_off())
    if (freezing := _froze(failed)) is not None:
        return Cut(Kind.FROZEN, freezing, _place(freezing))
    if _all_are_frozen(failed):
        return Cut(Kind.FROZEN, None, frozen_at())
    return Cut(Kind.UNKNOWN)


def _place(call: Call) -> Spot | None:
    return Spot.of_site(call.site) if call.site is not None else None


def _cutting(made_from: list[Call]) -> Call | None:
    """The nearest call that cuts the graph; an explicit detach only if there is no other."""
    cuts = [call for call in made_from if _cuts(call)]
    others = [call for call in cuts if call.name not in ("detach", "detach_")]
    return next(iter(others or cuts), None)


def _cuts(call: Call) -> bool:
    """Whether an operand of the call requires grad and its result does not.

    Weights that are filled in place keep requires_grad; if they have none, another line froze them.
    """
    return (
        not (call.changed and call.name != "detach_")
        and any(each.requires_grad for each in call.operands)
        and bool(call.outputs)
        and not any(each.requires_grad for each in call.outputs)
    )


def _left_torch(failed: FailedCall, made_from: list[Call]) -> Call | None:
    """The call that made a Python number or array of a tensor, best on the loss's line."""
    lines = {(site.filename, site.f_lineno) for call in made_from for site in call.stack[:1]}
    left = [
        call
        for call in reversed(failed.tape.calls)
        if call.name in OUT_OF_TORCH | {"detach", "data.__get__", "cpu"}
        and any(each.requires_grad for each in call.operands)
        and call.step == failed.call.step
    ]
    near = [
        call
        for call in left
        if call.site is not None and (call.site.filename, call.site.f_lineno) in lines
    ]
    return next(iter(near or left), None)


def _froze(failed: FailedCall) -> Call | None:
    return next((call for call in reversed(failed.tape.calls) if call.name in FREEZES), None)


def _all_are_frozen(failed: FailedCall) -> bool:
    weights = [each for root in failed.modules.roots() for each in nn.Module.parameters(root)]
    return bool(weights) and not any(each.requires_grad for each in weights)


def is_copied(cut: Call) -> bool:
    """Whether a module is deep-copied there, which reads the .data of its weights."""
    node = cut.site.node() if cut.site is not None else None
    return isinstance(node, ast.Call) and last_name(node.func) == "deepcopy"


def cut_text(cut: Call) -> str:
    if is_copied(cut):
        return "deepcopy"
    return {
        "data.__get__": ".data",
        "item": ".item()",
        "detach": ".detach()",
        "numpy": ".numpy()",
    }.get(cut.name, cut.name)


def _verdict(cut: Cut) -> str:
    if cut.kind is Kind.CALL and cut.call is not None:
        return f"{cut_text(cut.call)} detached it"
    return {
        Kind.OFF: "it was computed with gradients switched off",
        Kind.FROZEN: "every parameter in it is frozen",
    }.get(cut.kind, "none of its inputs requires grad")


def _why(cut: Cut) -> str:
    if cut.kind is Kind.CALL and cut.call is not None:
        text = cut_text(cut.call)
        return (
            f"The input of {text} requires grad, its result does not. Everything after it is a "
            "constant."
        )
    if cut.kind is Kind.OFF:
        what = f"{cut.call.name} ran" if cut.call is not None else "The forward pass ran"
        return f"{what} under no_grad, so nothing was recorded for backward."
    if cut.kind is Kind.FROZEN:
        return "All parameters that take part have requires_grad=False."
    return "Autograd only reaches tensors that require grad, and none in this loss does."


def _fix(cut: Cut) -> str:
    if cut.kind is Kind.OFF:
        if cut.spot is not None and _is_statement(cut.spot):
            return (
                "Use it as a context manager, `with torch.no_grad(): ...`, which ends on every "
                "exit. As a statement it lasts until gradients are switched on again."
            )
        return "Compute the training loss outside of no_grad; use no_grad for evaluation."
    if cut.kind is Kind.FROZEN:
        return "Unfreeze at least the part that should be trained."
    if cut.call is None:
        return (
            "Compute the loss from the model's output. Setting loss.requires_grad = True would "
            "silence the error and train nothing."
        )
    if cut.call.name in OUT_OF_TORCH:
        return "Add up the tensors themselves, and call .item() only for logging."
    return f"Use the tensor itself; call {cut_text(cut.call)} only where no gradient is needed."


def _leaving(cut: Cut) -> tuple[Hop, ...]:
    out = (
        way_out(cut.spot)
        if cut.kind is Kind.OFF and cut.spot is not None and _is_statement(cut.spot)
        else None
    )
    return (out.hop("exits without switching gradients on again"),) if out is not None else ()


def _is_statement(spot: Spot) -> bool:
    """Whether `torch.set_grad_enabled(False)` is a statement, not a context manager."""
    return isinstance(getattr(spot.node(), "parent", None), ast.Expr | ast.Assign)


def _patch(cut: Cut) -> str | None:
    spot, call = cut.spot, cut.call
    node = spot.node() if spot is not None else None
    if call is None or spot is None or (call.site is not None and call.site.is_indirect):
        return None
    if (
        call.name in ("item", "detach")
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
    ):
        return diff_of(replace_node(spot.filename, node, ast.unparse(node.func.value)))
    if call.name == "data.__get__" and isinstance(node, ast.Attribute):
        return diff_of(replace_node(spot.filename, node, ast.unparse(node.value)))
    if cut.kind is Kind.OFF and isinstance(node, ast.Call) and last_name(node.func) == "no_grad":
        return diff_of(replace_node(spot.filename, node, "torch.enable_grad()"))
    return None
