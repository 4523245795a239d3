"""The loss is not connected to any parameter.

What happened
    backward was called on a tensor that no parameter has a part in: the way was cut by detach, .data, .item(), no_grad,
    argmax or a new torch.tensor, or all parameters are frozen.
Why it matters
    The popular cure, loss.requires_grad = True, silences the message and trains nothing.
How it is detected
    The tape is walked back from the loss to the nearest call that had an input with gradient and a result without.
How to fix it
    Take the cut away.
When it stays silent
    If the loss requires grad.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.rules.gradient.subject import differentiated
from whence.rules.rule import rule
from whence.rules.telling import describe, tell
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, parent_of, tree_of
from whence.tape.failed import FailedCall
from whence.tape.tape import OUT_OF_TORCH, Call

SWITCHES = ("no_grad", "inference_mode", "set_grad_enabled")


@rule("gradient/no-graph")
def no_graph(failed: FailedCall) -> Finding | None:
    loss = differentiated(failed)
    if loss is None or loss.requires_grad:
        return None
    cut = _cut(failed, loss)
    spot = _spot(failed, cut)
    return tell(
        failed,
        "gradient/no-graph",
        verdict=f"the loss has no graph: {_verdict(cut)}",
        spot=spot,
        why=_why(cut),
        fix=_fix(cut),
        patch=_patch(cut, spot),
        operands=(Operand("loss", describe(loss)),),
    )


def _cut(failed: FailedCall, loss: torch.Tensor) -> Call | None:
    """The call where the way from the parameters to the loss ends."""
    made_from = [call for call in ancestors(failed.value(loss)) if not call.forgotten]
    cuts = [call for call in made_from if _cuts(call)]
    deliberate = [call for call in cuts if call.name in ("detach", "detach_")]
    if len(deliberate) < len(cuts):
        return next(call for call in cuts if call not in deliberate)
    if cuts:
        return cuts[0]
    return _left_torch(failed, made_from) or _froze(failed)


def _cuts(call: Call) -> bool:
    """True if the call had something with gradient and gave something without."""
    return (
        any(each.requires_grad for each in call.operands)
        and bool(call.outputs)
        and not any(each.requires_grad for each in call.outputs)
    )


def _left_torch(failed: FailedCall, made_from: list[Call]) -> Call | None:
    """The call that made a Python number or an array of a tensor with gradient, best one on a line that the loss was made by."""
    lines = {(site.filename, site.f_lineno) for call in made_from for site in call.stack[:1]}
    left = [
        call
        for call in reversed(failed.tape.calls)
        if call.name in OUT_OF_TORCH | {"detach", "data.__get__", "cpu"}
        and any(each.requires_grad for each in call.operands)
        and call.step == failed.call.step
    ]
    near = [call for call in left if call.site is not None and (call.site.filename, call.site.f_lineno) in lines]
    return next(iter(near or left), None)


def _froze(failed: FailedCall) -> Call | None:
    return next(
        (call for call in reversed(failed.tape.calls) if call.name in ("requires_grad_", "requires_grad.__set__")), None
    )


def switch_around(call: Call) -> Spot | None:
    """The `with torch.no_grad():` or decorator under which a call was made."""
    for site in call.stack:
        node: ast.AST | None = site.node() or site.statement()
        while node is not None:
            if isinstance(node, ast.With):
                for item in node.items:
                    if _is_switch(item.context_expr):
                        return Spot.of_node(site.filename, item.context_expr)
            node = parent_of(node)
        found = _decorator(site)
        if found is not None:
            return found
    return None


def _global_switch(failed: FailedCall) -> Spot | None:
    """`torch.set_grad_enabled(False)` as a statement: it holds until somebody switches it on again."""
    for filename in dict.fromkeys(frame.f_code.co_filename for frame in failed.frames):
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and _is_switch(node.value):
                return Spot.of_node(filename, node.value)
    return None


def _decorator(site: Site) -> Spot | None:
    function = function_node(site)
    for decorator in getattr(function, "decorator_list", []):
        if _is_switch(decorator):
            return Spot.of_node(site.filename, decorator)
    return None


def _is_switch(node: ast.expr) -> bool:
    target = node.func if isinstance(node, ast.Call) else node
    return (target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")) in SWITCHES


def _spot(failed: FailedCall, cut: Call | None) -> Spot | None:
    if cut is None or cut.site is None:
        return None
    if not cut.grad_mode and cut.name not in ("detach", "data.__get__"):
        return switch_around(cut) or _global_switch(failed) or Spot.of_site(cut.site)
    return Spot.of_site(cut.site)


def cut_text(cut: Call) -> str:
    return {"data.__get__": ".data", "item": ".item()", "detach": ".detach()", "numpy": ".numpy()"}.get(
        cut.name, cut.name
    )


def _verdict(cut: Call | None) -> str:
    if cut is None:
        return "nothing it was made from requires grad"
    if cut.name in ("requires_grad_", "requires_grad.__set__"):
        return "every parameter it was made from is frozen"
    return "it was computed with gradients switched off" if not cut.grad_mode else f"{cut_text(cut)} cut it off"


def _why(cut: Call | None) -> str:
    if cut is None:
        return "Autograd can only go back to tensors that require grad, and none of those in this loss does."
    if cut.name in ("requires_grad_", "requires_grad.__set__"):
        return "All parameters that take part were set to requires_grad=False."
    if not cut.grad_mode:
        return f"{cut.name} ran under no_grad, so that nothing was recorded for backward."
    return f"What went into {cut_text(cut)} had a gradient, what came out has none; everything after it is a constant."


def _fix(cut: Call | None) -> str:
    if cut is None:
        return "Compute the loss from the model's output. Setting loss.requires_grad = True would silence the message and train nothing."
    if cut.name in ("requires_grad_", "requires_grad.__set__"):
        return "Leave at least the part that is to be trained unfrozen."
    if not cut.grad_mode:
        return "Compute the training loss outside of no_grad; keep it for evaluation."
    if cut.name in OUT_OF_TORCH:
        return "Add up the tensors themselves, and take .item() only for printing."
    return f"Keep the tensor itself; take {cut_text(cut)} only where no gradient is wanted."


def _patch(cut: Call | None, spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if cut is None or spot is None:
        return None
    if cut.name in ("item", "detach") and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return diff_of(replace_node(spot.filename, node, ast.unparse(node.func.value)))
    if cut.name == "data.__get__" and isinstance(node, ast.Attribute):
        return diff_of(replace_node(spot.filename, node, ast.unparse(node.value)))
    if not cut.grad_mode and isinstance(node, ast.Call) and "no_grad" in ast.unparse(node.func):
        return diff_of(replace_node(spot.filename, node, "torch.enable_grad()"))
    return None
