"""The graph is used again after it was freed.

What happened
    A tensor made before the last backward (a recurrent state, a loss term computed once) is part of this loss too. The
    first backward freed what it had saved.
Why it matters
    The message recommends retain_graph=True. For a carried state that is wrong: it grows with every step, and fails next
    in another way.
How it is detected
    The tape: the loss was made after the last backward, one of its inputs before it.
How to fix it
    detach() what is carried over, or compute the shared term anew in each step.
When it stays silent
    Several losses over one graph that keep it on purpose.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.graph import call_of, is_spoilt, last_backward, nodes_of
from whence.rules.gradient.subject import differentiated
from whence.rules.rule import rule
from whence.rules.telling import describe, tell
from whence.source.definitions import own_nodes
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.source.text import function_node, statement_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value


@rule("gradient/double-backward")
def double_backward(failed: FailedCall) -> Finding | None:
    loss, before = differentiated(failed), last_backward(failed)
    if loss is None or before is None or not loss.requires_grad or not _used_up(failed, loss, before):
        return None
    carried, user = _carried(failed, loss, before)
    made = carried.call if carried is not None else None
    spot = (_handed_on(user) or _where_kept(failed, carried, user)) if carried is not None else None
    earlier = Spot.of_site(before.site) if before.site is not None else None
    where = f" at {earlier.file}:{earlier.line}" if earlier is not None else ""
    return tell(
        failed,
        "gradient/double-backward",
        verdict="the loss reaches back into a graph that an earlier backward has freed",
        spot=spot,
        patch=_detach_patch(spot),
        chain=(earlier.hop("this backward freed it"),) if earlier is not None else (),
        why=f"{_what(carried)} was made in step {made.step}, before the backward{where}; this loss was made from it in step {failed.call.step}."
        if made is not None
        else f"backward already ran over this loss{where}.",
        fix="detach() it before it is used in the next step (h = h.detach()), or compute it anew there; retain_graph=True would only keep every step's graph alive."
        if made is not None
        else "Call backward once for each loss.",
        operands=(Operand("carried", describe(carried)),)
        if carried is not None
        else (Operand("loss", describe(loss)),),
    )


def _used_up(failed: FailedCall, loss: torch.Tensor, before: Call) -> bool:
    """True if the last backward went through a node of this loss too, and what that had saved is gone."""
    freed = set(map(id, ancestors(*before.operands)))
    for node in nodes_of(loss):
        made = call_of(node, failed)
        if made is not None and id(made) in freed and is_spoilt(node):
            return True
    return False


def _carried(failed: FailedCall, loss: torch.Tensor, before: Call) -> tuple[Value | None, Call | None]:
    """The value that was made before the last backward and used after it, and the call that used it."""
    value = failed.value(loss)
    for call in ancestors(value):
        if call.number < before.number:
            continue
        for operand in call.operands:
            if operand.call is not None and operand.requires_grad and operand.call.number < before.number:
                return operand, call
    return (value if value.call is not None and value.call.number < before.number else None), None


def _handed_on(user: Call | None) -> Spot | None:
    """`state = h.detach(), c` after its use: the line that keeps it for the next step under the name that is read there."""
    site = user.site if user is not None else None
    node, scope = (site.node(), function_node(site)) if site is not None else (None, None)
    statement = statement_of(node) if node is not None else None
    if site is None or scope is None or statement is None or not isinstance(node, ast.Call):
        return None
    assigns = [
        each for each in own_nodes(scope) if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    ]
    made = {each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    read = {each.id for each in node.args if isinstance(each, ast.Name)}
    # Names that only stand for another: `river = memory`.
    read |= {each.value.id for each in assigns if isinstance(each.value, ast.Name) and _target(each) in read}
    for each in assigns:
        used = {name.id for name in ast.walk(each.value) if isinstance(name, ast.Name)}
        if each.lineno > statement.lineno and _target(each) in read and used & made:
            return Spot.of_node(site.filename, each)
    return None


def _target(assign: ast.Assign) -> str:
    return assign.targets[0].id if isinstance(assign.targets[0], ast.Name) else ""


def _where_kept(failed: FailedCall, carried: Value, user: Call | None) -> Spot | None:
    """The line of the loop that got it, if the loop carries it over; where it was made, if a module keeps it."""
    stack = carried.call.stack if carried.call is not None else ()
    kept = _is_kept_by_object(user)
    running = {site.f_code for site in failed.call.stack}
    shared = next((site for site in stack if site.f_code in running), None)
    site = shared if shared is not None and not kept else next(iter(stack), None)
    return Spot.of_site(site) if site is not None else None


def _detach_patch(spot: Spot | None) -> str | None:
    """`out, h = model(x, h)`: hand over h.detach()."""
    node = spot.node() if spot is not None else None
    statement = statement_of(node) if node is not None else None
    if spot is not None and isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
        return diff_of(insert_after(spot.filename, node.value, ".detach()"))
    if spot is None or not isinstance(node, ast.Call) or not isinstance(statement, ast.Assign):
        return None
    bound = {each.id for target in statement.targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    again = [each for each in node.args if isinstance(each, ast.Name) and each.id in bound]
    return diff_of(insert_after(spot.filename, again[0], ".detach()")) if len(again) == 1 else None


def _is_kept_by_object(user: Call | None) -> bool:
    """True if the call that used it again read it from an attribute, as in `self.cell(x, self.state)`."""
    node = user.site.node() if user is not None and user.site is not None else None
    given = [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
    return any(isinstance(each, ast.Attribute) for each in given)


def _what(carried: Value | None) -> str:
    return f"The {describe(carried)} tensor" if carried is not None else "The loss"
