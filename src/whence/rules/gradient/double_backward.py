"""The loss uses a graph that an earlier backward freed.

What happened
    A tensor computed before an earlier backward (a recurrent state, a loss term computed once, a
    cached value) is part of this loss too. That backward freed its saved tensors.
Why it matters
    The error message recommends retain_graph=True. For a carried state that is wrong: the graph
    grows with every step, and the program fails later in another way.
How it is detected
    A node of this loss has lost its saved tensors, and its sequence number shows that it was
    created before an earlier backward. The variable, attribute or container that kept its result is
    then searched for.
How to fix it
    Call `detach()` on the carried tensor, or compute the shared term again in each step.
When it stays silent
    For several losses over one graph that keep it on purpose.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.graph import Lost, call_of, freed_before, made_before, nodes_below
from whence.lineage.keeping import keepers_of, put_there
from whence.rules.gradient.subject import differentiated
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding
from whence.source.definitions import own_nodes
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.source.text import function_node, statement_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value, node_of


@dataclass(frozen=True, slots=True)
class Carried:
    """A tensor computed before an earlier backward and used after it."""

    node: Any
    user: Call | None
    made: Call | None
    """The calls that used and computed it, where they were recorded."""
    tensor: torch.Tensor | None

    @property
    def thing(self) -> Value | torch.Tensor | None:
        outputs = self.made.outputs if self.made is not None else ()
        return (
            self.tensor
            if self.tensor is not None
            else next((each for each in outputs if each.requires_grad), None)
        )


@rule("gradient/double-backward")
def double_backward(failed: FailedCall) -> Finding | None:
    loss = differentiated(failed)
    freed = freed_before(loss, failed.beats) if loss is not None and loss.requires_grad else None
    before = failed.beats.backward_since(freed.number) if freed is not None else None
    if loss is None or freed is None or before is None:
        return None
    carried = carried_beyond(failed, loss, freed, before.before)
    spot = where_kept(failed, carried) if carried is not None else None
    used = _used_again(failed, carried)
    earlier = Spot.of_site(before.site)
    chain = [earlier.hop("this backward freed the graph")]
    if spot is not None and used is not None and _in_one_iteration(spot, earlier, used):
        # Two losses of one iteration share it: the second must not reuse the first one's graph.
        chain, spot = [spot.hop("computed here"), *chain], used
    elif used is not None and (
        spot is None or (used.filename, used.line) != (spot.filename, spot.line)
    ):
        chain.append(used.hop("used again here"))
    where = f" at {earlier.file}:{earlier.line}"
    return failure_finding(
        failed,
        "gradient/double-backward",
        verdict="the loss reaches into a graph that an earlier backward has freed",
        spot=spot,
        patch=_detach_patch(spot),
        chain=tuple(chain),
        why=f"{_what(carried)} was computed {_when(carried)}before the backward{where}. This loss "
        "was computed from it afterwards."
        if carried is not None
        else f"backward already ran over this loss{where}.",
        fix="Detach the carried tensor before it is used again (h = h.detach()), or compute it "
        "again there. retain_graph=True would only keep the graph of every step in memory."
        if carried is not None
        else "Call backward once for each loss.",
        operands=(Operand("carried", describe(carried.thing)),)
        if carried is not None and carried.thing is not None
        else (Operand("loss", describe(loss)),),
    )


def _used_again(failed: FailedCall, carried: Carried | None) -> Spot | None:
    """The line of the running loop that passes the carried tensor to this loss."""
    stack = carried.user.stack if carried is not None and carried.user is not None else ()
    running = {site.f_code for site in failed.call.stack}
    site = next((site for site in stack if site.f_code in running), next(iter(stack), None))
    return Spot.of_site(site) if site is not None else None


def _in_one_iteration(made: Spot, freed: Spot, used: Spot) -> bool:
    """Whether, in one function, it is computed, freed by one loss's backward, then used by another.

    `fake = G(z)` in a GAN is the typical case.
    """
    places = {(each.filename, each.function) for each in (made, freed, used)}
    return len(places) == 1 and made.line < freed.line < used.line


def carried_beyond(
    failed: FailedCall, loss: torch.Tensor, freed: Lost, limit: int
) -> Carried | None:
    """A tensor from before a backward or step, used after it, that needs the lost values."""
    for user, node in made_before(loss, limit):
        if any(below is freed.node for below in nodes_below(node)):
            made = call_of(node, failed)
            outputs = [each.tensor for each in made.outputs] if made is not None else []
            tensor = next(
                (each for each in outputs if each is not None and node_of(each) is node), None
            )
            return Carried(node, call_of(user, failed), made, tensor)
    return None


def where_kept(failed: FailedCall, carried: Carried) -> Spot | None:
    """The line that keeps it for the next step, else the loop's line that got or computed it."""
    stack = carried.made.stack if carried.made is not None else ()
    keepers = keepers_of(lambda each: node_of(each) is carried.node, failed)
    kept = next((spot for each in keepers if (spot := put_there(each, stack)) is not None), None)
    if kept is not None and keepers[0].owner is not None:
        return kept
    return (
        _kept_after_use(carried.user)
        or kept
        or _rebound(failed, carried)
        or _where_made(failed, carried)
    )


def _rebound(failed: FailedCall, carried: Carried) -> Spot | None:
    """`out, h = cell(x, h)`: the old `h` is gone; find the variable that holds its successor."""

    def follows(tensor: torch.Tensor) -> bool:
        node = node_of(tensor)
        is_alike = node is not None and node.name() == carried.node.name()
        return is_alike and any(below is carried.node for below in nodes_below(node))

    for each in keepers_of(follows, failed):
        stores = list(each.stores())
        again = [store for store in stores if each.is_read_by(store[1])]
        if len(again or stores) == 1:
            filename, statement = (again or stores)[0]
            return Spot.of_node(filename, getattr(statement, "value", None) or statement)
    return None


def _kept_after_use(user: Call | None) -> Spot | None:
    """`state = h.detach(), c`: the line after the use that keeps it under the name read there."""
    site = user.site if user is not None else None
    node, scope = (site.node(), function_node(site)) if site is not None else (None, None)
    statement = statement_of(node) if node is not None else None
    if site is None or scope is None or statement is None or not isinstance(node, ast.Call):
        return None
    assigns = [
        each
        for each in own_nodes(scope)
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name)
    ]
    made = {
        each.id
        for each in ast.walk(statement)
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)
    }
    read = {each.id for each in node.args if isinstance(each, ast.Name)}
    # Aliases: `river = memory`.
    read |= {
        each.value.id
        for each in assigns
        if isinstance(each.value, ast.Name) and _target(each) in read
    }
    for each in assigns:
        used = {name.id for name in ast.walk(each.value) if isinstance(name, ast.Name)}
        if each.lineno > statement.lineno and _target(each) in read and used & made:
            return Spot.of_node(site.filename, each)
    return None


def _target(assign: ast.Assign) -> str:
    return assign.targets[0].id if isinstance(assign.targets[0], ast.Name) else ""


def _where_made(failed: FailedCall, carried: Carried) -> Spot | None:
    stack = carried.made.stack if carried.made is not None else ()
    running = {site.f_code for site in failed.call.stack}
    shared = next((site for site in stack if site.f_code in running), None)
    site = (
        shared
        if shared is not None and not _is_kept_by_object(carried.user)
        else next(iter(stack), None)
    )
    return Spot.of_site(site) if site is not None else None


def _detach_patch(spot: Spot | None) -> str | None:
    """`out, h = model(x, h)`: pass `h.detach()`."""
    node = spot.node() if spot is not None else None
    statement = statement_of(node) if node is not None else None
    if spot is not None and isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
        return diff_of(insert_after(spot.filename, node.value, ".detach()"))
    if spot is None or not isinstance(node, ast.Call) or not isinstance(statement, ast.Assign):
        return None
    bound = {
        each.id
        for target in statement.targets
        for each in ast.walk(target)
        if isinstance(each, ast.Name)
    }
    again = [each for each in node.args if isinstance(each, ast.Name) and each.id in bound]
    return diff_of(insert_after(spot.filename, again[0], ".detach()")) if len(again) == 1 else None


def _is_kept_by_object(user: Call | None) -> bool:
    """Whether the call read it from an attribute, as in `self.cell(x, self.state)`."""
    node = user.site.node() if user is not None and user.site is not None else None
    arguments = (
        [*node.args, *(each.value for each in node.keywords)] if isinstance(node, ast.Call) else []
    )
    return any(isinstance(each, ast.Attribute) for each in arguments)


def _what(carried: Carried) -> str:
    return f"The {describe(carried.thing)} tensor" if carried.thing is not None else "A part of it"


def _when(carried: Carried) -> str:
    return f"in step {carried.made.step}, " if carried.made is not None else ""
