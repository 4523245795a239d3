"""Values needed for backward that were overwritten after the forward pass."""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding, Hop, Operand
from whence.lineage.graph import Lost, call_of, change_after, lost_in, node_name
from whence.rules.gradient.double_backward import Carried, carried_beyond, where_kept
from whence.rules.gradient.subject import differentiated
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.beats import Beat
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value


def _overwritten(failed: FailedCall) -> list[Lost]:
    """Saved tensors that were written to; tensors that an earlier backward freed do not count."""
    loss = differentiated(failed)
    if loss is None or not loss.requires_grad:
        return []
    return [each for each in lost_in(loss) if not each.freed]


def _step_between(failed: FailedCall) -> tuple[Lost, torch.Tensor, Beat] | None:
    """A saved weight that an optimizer step changed: what was lost, the weight, and the step."""
    for lost in _overwritten(failed):
        beat = failed.beats.step_of(lost.memory, lost.number) if lost.memory is not None else None
        if beat is not None and lost.memory is not None:
            return lost, lost.memory, beat
    return None


def _change(failed: FailedCall) -> tuple[Call, Call, Value] | None:
    """The call whose saved value was changed, the call that changed it, and the value."""
    for lost in _overwritten(failed):
        made = call_of(lost.node, failed)
        change = change_after(made, failed) if made is not None else None
        if made is not None and change is not None:
            return made, *change
    return None


@rule("gradient/stepped-early")
def stepped_early(failed: FailedCall) -> Finding | None:
    """Parameters changed between forward and backward.

    What happened
        An optimizer stepped after the loss was computed and before its backward. Backward would use
        different weights from the forward pass.
    Why it matters
        The error message mentions an in-place operation on the output of AsStrided; the cause is
        `optimizer.step()`.
    How it is detected
        The saved tensor that backward misses shares memory with a parameter of an optimizer that
        has stepped since. Autograd's sequence numbers show the order, even where nothing was
        recorded.
    How to fix it
        Compute the second loss after the step, or call both backwards before either step. Detach a
        state that is only carried over.
    When it stays silent
        If the steps come after every backward that needs the old weights.
    Cost
        None until a call raises.
    """
    found = _step_between(failed)
    if found is None:
        return None
    lost, weight, step = found
    made = call_of(lost.node, failed)
    saved_by = made.name if made is not None else node_name(lost.node)
    name = failed.modules.name_of_memory(weight) or shape_text(weight.shape)
    loss = differentiated(failed)
    carried = carried_beyond(failed, loss, lost, step.before) if loss is not None else None
    if carried is not None:
        return _carried_state(
            failed, carried, step, name=name, steps=_steps_between(failed, lost, step)
        )
    return failure_finding(
        failed,
        "gradient/stepped-early",
        verdict=f"the optimizer changed {name} between forward and backward",
        spot=Spot.of_site(step.site),
        chain=_forward_hop(made) if made is not None else (),
        why=f"{saved_by} saved the weights of the forward pass for its backward. This step "
        "overwrote them before that backward ran.",
        fix="Compute this loss after the step, from a new forward pass, or run both backwards "
        "before either step. Detaching would silence the error and drop the gradient.",
        operands=(Operand("parameter", describe(weight)),),
    )


def _steps_between(failed: FailedCall, lost: Lost, step: Beat) -> int:
    """How often the optimizer that stepped first has stepped since the value was saved."""
    return sum(each.optimizer is step.optimizer for each in failed.beats.steps_since(lost.number))


def _carried_state(
    failed: FailedCall, carried: Carried, step: Beat, *, name: str, steps: int
) -> Finding | None:
    """Report a loss computed after the step from a carried state, or from shared features."""
    stepped = Spot.of_site(step.site)
    # Features shared by two losses live within one iteration; a state outlives two updates.
    kept = where_kept(failed, carried) if steps > 1 else None
    use = carried.user.site if carried.user is not None else None
    hops = ((stepped.hop(f"changes {name}"),) if kept is not None else ()) + (
        (Spot.of_site(use).hop("the loss is computed from it"),) if use is not None else ()
    )
    return failure_finding(
        failed,
        "gradient/stepped-early",
        verdict="the loss depends on a graph from before "
        f"{'the last updates' if steps > 1 else 'an update'} of {name}",
        spot=kept or stepped,
        chain=hops,
        why="The loss was computed after the step, from a tensor computed before it. Its "
        "backward needs the old weights, and they were overwritten.",
        fix="Call detach() on a state where it is carried over (h = h.detach()). If its gradient "
        "is needed, compute it again after the step, or run both backwards before either step.",
        operands=(Operand("carried", describe(carried.thing)),)
        if carried.thing is not None
        else (),
    )


@rule("gradient/in-place")
def in_place(failed: FailedCall) -> Finding | None:
    """A value needed for backward was overwritten.

    What happened
        A tensor that an operation saved for backward was changed in place afterwards, directly or
        through a view; or a parameter that requires grad was changed in place while gradients are
        recorded.
    Why it matters
        The error message names the operation that saved the tensor, not the statement that changed
        it.
    How it is detected
        The node that cannot read its saved tensor is matched with its call on the tape, and with
        the later call that wrote to the same memory.
    How to fix it
        Use the out-of-place form (x = x * 2), or update parameters under `torch.no_grad()`.
    When it stays silent
        For in-place changes of values that no backward needs.
    Cost
        None until a call raises.
    """
    leaf = _leaf_changed(failed)
    if leaf is not None:
        return _report_leaf(failed, leaf)
    found = _change(failed)
    if found is None or found[1].phase == "optimizer":
        return None
    made, change, value = found
    spot = Spot.of_site(change.site) if change.site is not None else None
    return failure_finding(
        failed,
        "gradient/in-place",
        verdict=f"{change.name} overwrote a value that the backward of {made.name} needs",
        spot=spot,
        chain=_forward_hop(made),
        why=f"{made.name} saved a {shape_text(value.shape)} tensor for backward. This statement "
        "wrote to the same memory before backward ran.",
        fix="Use the out-of-place form, which creates a new tensor: x = x * y instead of x *= y.",
        patch=_out_of_place(spot),
        operands=(Operand("overwritten", describe(value)),),
    )


def _forward_hop(made: Call) -> tuple[Hop, ...]:
    return (
        (Spot.of_site(made.site).hop(f"{made.name} saves it for backward"),)
        if made.site is not None
        else ()
    )


def _leaf_changed(failed: FailedCall) -> torch.Tensor | None:
    """The leaf that a failed in-place call tried to change."""
    name = failed.name
    writes = (
        name == "__setitem__"
        or (name.startswith("__i") and name.endswith("__"))
        or (name.endswith("_") and not name.endswith("__"))
    )
    subject = failed.args[0] if failed.args else None
    if not writes or not isinstance(subject, torch.Tensor) or not torch.is_grad_enabled():
        return None
    base = subject._base if subject._is_view() else subject
    return subject if base is not None and base.is_leaf and base.requires_grad else None


def _report_leaf(failed: FailedCall, leaf: torch.Tensor) -> Finding | None:
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    return failure_finding(
        failed,
        "gradient/in-place",
        verdict=f"a parameter of shape {shape_text(leaf.shape)} is changed in place while "
        "gradients are recorded",
        spot=spot,
        why="Autograd accumulates gradients in leaf tensors. An in-place change would make the "
        "leaf the result of an operation on itself.",
        fix="Update the parameter under torch.no_grad(), as optimizers do, or compute a new "
        "tensor from it.",
        patch=_under_no_grad(spot),
        operands=(Operand("parameter", describe(leaf)),),
    )


def _out_of_place(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None:
        return None
    statement = node
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        operator = _OPERATORS.get(type(statement.op), "")
        value = ast.unparse(statement.value)
        value = f"({value})" if isinstance(statement.value, ast.BinOp | ast.IfExp) else value
        name = statement.target.id
        return (
            diff_of(replace_node(spot.filename, statement, f"{name} = {name} {operator} {value}"))
            if operator
            else None
        )
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.endswith("_")
    ):
        return diff_of(replace_node(spot.filename, node.func, f"{ast.unparse(node.func)[:-1]}"))
    return None


_OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.MatMult: "@",
    ast.Pow: "**",
}


def _under_no_grad(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.AugAssign | ast.Assign):
        return None
    indent = " " * node.col_offset
    return diff_of(
        replace_node(
            spot.filename,
            node,
            f"with torch.no_grad():\n{indent}    {text_of(spot.filename, node)}",
        )
    )
