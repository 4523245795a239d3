"""Trainable weights that receive no gradient: where the path from the loss to them is cut."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.ledgers.weights import WeightEntry
from whence.lineage.switches import switch_around
from whence.rules.gradient.no_graph import cut_text, is_copied
from whence.rules.gradient.numbers import TO_NUMBERS, number_in_loss
from whence.rules.gradient.sampled import blocked_by_sample
from whence.rules.operations import SAME_NUMBERS
from whence.rules.rule import Rank, audit_rule, study_rule
from whence.rules.telling import shape_text, silent_finding, spot_at
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.statements import remove_statement
from whence.source.text import parent_of, text_of
from whence.tape.replay import is_weight
from whence.tape.tape import OUT_OF_TORCH, Call, Value

ENOUGH = 3
WRAPS = frozenset({"tensor", "as_tensor", "Variable", "Parameter", "Tensor"})
MEANT = frozenset({"detach", "detach_"})
# A finding about a whole optimizer already covers each of its weights.
EXPLAINED = frozenset(
    {"gradient/detached", "gradient/fake-leaf", "gradient/checkpoint-cut",
     "optimizer/discarded-gradient", "optimizer/no-update"}
)  # fmt: skip


@audit_rule("gradient/detached", Rank.CALL)
def detached(audit: Audit) -> Finding | None:
    """Parameters that should learn are detached from the loss.

    What happened
        Weights belong to the optimizer and take part in the forward pass, but backward never gives
        them a gradient: a call between them and the loss returned a result without a graph.
    Why it matters
        They keep their initial values, while the rest of the model learns around them.
    How it is detected
        Weights of recorded steps never receive a gradient and stay bit for bit the same. The tape
        is followed from them to the first result without a graph, or to a copy of their values into
        another weight's memory.
    How to fix it
        Keep the computation in PyTorch. Remove `no_grad` or `detach` where it is not intended.
    When it stays silent
        For weights that receive a gradient in some step, or whose optimizer has hardly stepped yet;
        parts that the loss does not use; weights that the program changes itself (target networks);
        frozen and loaded weights; modules in eval mode.
    Cost
        A check of each weight in a few recorded steps.
    """
    if EXPLAINED & audit.told or audit.step < ENOUGH:
        return None
    lost = [
        each
        for each in without_gradient(audit)
        if each.weight is not None and each.weight.grad is None
    ]
    for entry in lost:
        if entry.call is None:
            continue
        path = audit.tape.calls, entry.call, entry.weight
        cut = _cut_after(*path) or number_in_loss(*path)
        if cut is None or cut.site is None:
            continue
        leaves = _leaves_torch(cut, audit)
        meant = (cut.name in MEANT or not cut.grad_mode) and not leaves
        if meant and not audit.final:
            continue
        if meant and (not entry.training or audit.was_loaded(entry)):
            continue
        spot = switch_around(cut) if not cut.grad_mode else None
        names = [each.name or f"a weight {shape_text(each.first.shape)}" for each in lost]
        return silent_finding(
            audit,
            "gradient/detached",
            spot=spot or Spot.of_site(cut.site),
            step=cut.step,
            call=cut,
            verdict=f"{weights_text(names)} never {'gets' if len(names) == 1 else 'get'} a "
            f"gradient: {_reason(cut)}",
            what=unmoved_text(names),
            why=_why(cut),
            fix=_fix(cut, leaves),
            patch=_uncut(cut) if not meant and not leaves else None,
            severity=Severity.WARNING if meant else Severity.ERROR,
            confidence=Confidence.LIKELY if meant else Confidence.PROVEN,
        )
    return None


def _why(cut: Call) -> str:
    if not cut.grad_mode:
        return (
            f"{cut_text(cut)} ran with gradients switched off, so the weights in it are constants "
            "to the loss."
        )
    if is_copied(cut):
        return (
            "A deep copy has its own weights. Gradients of its results go to these, not to the "
            "original weights."
        )
    if cut.changed or cut.name == "data.__set__":
        return (
            "The values are copied into another weight's memory, bypassing autograd. To the "
            "loss, that weight is a leaf without history."
        )
    result = "starts a new graph" if any(each.requires_grad for each in cut.outputs) else "does not"
    return (
        f"The input of {cut_text(cut)} requires grad, its result {result}. For everything "
        "computed from the result, the earlier weights are constants."
    )


def _fix(cut: Call, leaves: bool) -> str:
    if is_copied(cut):
        return (
            "Copy the gradients over before the step: p.grad = q.grad for each weight p and its "
            "copy q. Or compute the loss with the original weights."
        )
    if cut.changed or cut.name == "data.__set__":
        return (
            "Compute with the tensor itself: torch.nn.functional.linear(x, w, b), or "
            "torch.func.functional_call(layer, {'weight': w}, x)."
        )
    if cut.name in WRAPS and not leaves:
        return (
            f"Use the tensor itself, which keeps its graph: {cut_text(cut)} makes a copy without "
            "one."
        )
    if cut.name in TO_NUMBERS:
        return "Use the tensor itself in the loss, and a Python number only for logging."
    if leaves or cut.name in OUT_OF_TORCH:
        return (
            "Use the equivalent torch functions, which have derivatives, instead of leaving "
            "PyTorch here."
        )
    return (
        f"Remove {cut_text(cut)}. If these weights should not learn, freeze them with "
        "requires_grad_(False)."
    )


def _uncut(cut: Call) -> str | None:
    """A diff that removes the detaching call: `x.detach()` and `torch.tensor(x)` become `x`."""
    node = cut.site.node() if cut.site is not None else None
    if cut.site is None or not isinstance(node, ast.Call):
        return None
    match node:
        case ast.Call(func=ast.Attribute(value=kept, attr="detach" | "detach_" | "item"), args=[]):
            return unwrapped(cut.site.filename, node, kept)
        case ast.Call(args=[ast.expr() as kept]) if cut.name in WRAPS and joins(cut):
            return stacked(cut.site.filename, node, kept)
        case ast.Call(
            args=[ast.Name() | ast.Attribute() | ast.Call() | ast.Subscript() as kept]
        ) if cut.name in WRAPS:
            return unwrapped(cut.site.filename, node, kept)
    return None


def joins(wrap: Call) -> bool:
    """Whether the call wraps a list of tensors, which must be stacked rather than unwrapped."""
    return bool(wrap.args) and isinstance(wrap.args[0], list | tuple)


def stacked(filename: str, node: ast.Call, kept: ast.expr) -> str | None:
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return (
        diff_of(replace_node(filename, node, f"torch.stack({text_of(filename, kept)})"))
        if owner == "torch"
        else None
    )


def unwrapped(filename: str, node: ast.Call, kept: ast.expr) -> str | None:
    """Replace a call with one of its operands; remove the line if that makes it `x = x`."""
    text, statement = text_of(filename, kept), parent_of(node)
    casts = [
        f"{each.arg}={ast.unparse(each.value)}"
        for each in node.keywords
        if each.arg in ("dtype", "device")
    ]
    if casts:
        text = f"{text}.to({', '.join(casts)})"
    if isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == [
        text
    ]:
        return diff_of(remove_statement(filename, statement))
    return diff_of(replace_node(filename, node, text))


def weights_text(names: list[str]) -> str:
    return "1 weight" if len(names) == 1 else f"{len(names)} weights"


def unmoved_text(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is bit for bit unchanged since the start"
    return (
        f"{', '.join(names[:2])}{' ...' if len(names) > 2 else ''} are bit for bit unchanged "
        "since the start"
    )


def _leaves_torch(cut: Call, audit: Audit) -> bool:
    """Whether the detached result goes on to numpy or Python numbers, which have no gradients."""
    results = {id(each) for each in cut.outputs}
    return any(
        call.name in ("numpy", "__array__", "tolist")
        and any(id(each) in results for each in call.operands)
        for call in audit.tape.calls
    )


def _reason(cut: Call) -> str:
    return (
        f"{cut_text(cut)} detaches them from the loss"
        if cut.grad_mode
        else "they run with gradients switched off"
    )


def without_gradient(audit: Audit) -> list[WeightEntry]:
    return [
        entry
        for entry in audit.weights.entries()
        if (weight := entry.weight) is not None
        and entry.passes >= 2
        and entry.gradients == 0
        and entry.call is not None
        and weight.requires_grad
        # In a GAN, one network may train for several steps before the other starts.
        and audit.steps_over(weight) >= ENOUGH
        and not entry.has_changed()
    ]


@study_rule("gradient/detached", Rank.CALL)
def detached_in_a_step(study: Study) -> Finding | None:
    return _no_gradients(study) or blocked_by_sample(study)


def _no_gradients(study: Study) -> Finding | None:
    """No weight of the optimizer about to step received a gradient from the backward before it."""
    own = [
        each
        for group in study.optimizer.param_groups
        for each in group["params"]
        if each.requires_grad
    ]
    if (
        study.entry.steps < 2
        or not study.losses
        or not own
        or any(study.gradient_of(each) is not None for each in own)
    ):
        return None
    known = {id(each) for each in own}
    if "gradient/fake-leaf" in study.told or known & _graph_leaves(
        each.value for each in study.losses
    ):
        return None
    cut = next(_cuts_in(study, known), None)
    if cut is None:
        return None
    return silent_finding(
        study,
        "gradient/detached",
        spot=spot_at(cut.site),
        symptom=spot_at(study.stack[0] if study.stack else None),
        step=study.step,
        call=cut,
        verdict=f"no weight of this {study.entry.kind} gets a gradient: {_reason(cut)}",
        what=f"{study.entry.kind} steps, but none of its {len(own)} weights has a gradient",
        why="The loss that backward was called on depends on them only through a result that has "
        "no graph.",
        fix=f"Remove {cut_text(cut)} here. In the step of another optimizer it may be correct.",
        patch=_uncut(cut),
    )


def _cuts_in(study: Study, weights: set[int]) -> Iterator[Call]:
    """The calls that detach these weights from the losses, in this pass or the one before."""
    for first in study.calls:
        if first.phase not in ("forward", "program"):
            continue
        weight = next(
            (value.tensor for value in first.operands if id(value.tensor) in weights), None
        )
        cut = _cut_after(study.calls, first, weight) if weight is not None else None
        if cut is not None and cut.site is not None and cut.grad_mode:
            yield cut
    for _, call in study.loss_calls():
        inputs = [each for each in call.operands if each.requires_grad]
        cuts = inputs and call.grad_mode and not any(each.requires_grad for each in call.outputs)
        if cuts and call.site is not None and weights & _graph_leaves(inputs):
            yield call


def _graph_leaves(values: Iterable[Value]) -> set[int]:
    """The weights in the graphs of these values."""
    pending, seen, found = list(values), set[int](), set[int]()
    while pending:
        value = pending.pop()
        if id(value) in seen or not value.requires_grad:
            continue
        seen.add(id(value))
        found.add(id(value.tensor))
        pending += value.call.operands if value.call is not None else ()
    return found


def _cut_after(tape: Iterable[Call], first: Call, weight: object) -> Call | None:
    """The first call after a weight whose result depends on it but does not require grad."""
    calls = [call for call in tape if call.number >= first.number and call.step == first.step]
    reached = {id(value) for value in first.operands if value.tensor is weight}
    found: Call | None = None
    unused: Call | None = None
    for call in calls:
        if (
            call.inner
            or call.phase in ("optimizer", "data", "backward")
            or call.name.startswith("grad.")
        ):
            # Reading a weight's gradient detaches nothing.
            continue
        inputs = [value for value in call.operands if id(value) in reached]
        if not inputs:
            continue
        written = _writes_past_the_graph(call, inputs)
        has_none = call.outputs and not any(each.requires_grad for each in call.outputs)
        if written or has_none or call.name in OUT_OF_TORCH | WRAPS:
            if call.name in (
                "item",
                "__float__",
                "tolist",
                "eq",
                "__eq__",
                "argmax",
                "isnan",
                "isfinite",
            ) or _is_side(call, inputs if written else call.operands, calls):
                continue
            if not _goes_on(call, calls):
                # `weight.data.uniform_()`: nothing trainable is computed from it.
                unused = call if unused is None or _is_part(unused, call, calls) else unused
            elif found is None or _is_part(found, call, calls) or _is_part(call, found, calls):
                # An earlier cut is not on the path if the path continues past it.
                found = call
            continue
        reached |= {id(value) for value in call.outputs}
    return found or unused


def _is_part(one: Call, other: Call, calls: Iterable[Call]) -> bool:
    """Whether one call detaches a part of what the other detaches: the larger cut explains more."""
    return one.operands[0] in _parts(other.operands, calls)[len(other.operands) :]


def _goes_on(cut: Call, calls: Iterable[Call]) -> bool:
    """Whether the detached result later enters a trainable computation as a constant."""
    reached = {id(value) for value in cut.outputs}
    for call in calls:
        if call.number <= cut.number or not any(id(each) in reached for each in call.operands):
            continue
        if any(each.requires_grad for each in call.outputs):
            return True
        reached |= {id(value) for value in call.outputs}
    return False


def _writes_past_the_graph(call: Call, given: Sequence[Value]) -> bool:
    """`layer.weight.data.copy_(w)`, or under no_grad: a weight gets values without a graph."""
    if call.name == "data.__set__":
        return True
    into = call.changed[0] if call.changed else None
    if into is None or into in given:
        return False
    weight = into if into.requires_grad and not call.grad_mode else None
    if into.call is not None and into.call.name == "data.__get__":
        weight = into.call.operands[0]
    return weight is not None and is_weight(weight)


def _is_side(call: Call, given: Sequence[Value], calls: Iterable[Call]) -> bool:
    """Whether the detached result is only a side branch: its operand is also used with gradient."""
    whole = {id(each) for each in _parts([each for each in given if each.requires_grad], calls)}
    return any(
        other is not call
        and other.name not in SAME_NUMBERS
        and any(id(each) in whole for each in other.operands)
        and any(each.requires_grad for each in other.outputs)
        for other in calls
        if other.number > call.number
    )


def _parts(values: Sequence[Value], calls: Iterable[Call]) -> list[Value]:
    """These values, followed by all values that hold the same numbers."""
    found, known = [*values], {id(each) for each in values}
    for call in calls:
        if call.name in SAME_NUMBERS and any(id(each) in known for each in call.operands):
            found += call.outputs
            known |= {id(each) for each in call.outputs}
    return found
