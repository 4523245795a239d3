"""Weights that should learn and get nothing: where the way from the loss to them is cut."""

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
from whence.rules.gradient.sampled import drawn_without_way
from whence.rules.operations import SAME_NUMBERS
from whence.rules.rule import Rank, audit_rule, study_rule
from whence.rules.telling import shape_text, spot_at, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.statements import remove_statement
from whence.source.text import parent_of, text_of
from whence.tape.replay import is_weight
from whence.tape.tape import OUT_OF_TORCH, Call, Value

ENOUGH = 3
WRAPS = frozenset({"tensor", "as_tensor", "Variable", "Parameter", "Tensor"})
MEANT = frozenset({"detach", "detach_"})
# What was told of a whole optimizer is true of each of its weights.
EXPLAINED = frozenset(
    {"gradient/detached", "gradient/fake-leaf", "gradient/checkpoint-cut", "optimizer/discarded-gradient", "optimizer/no-update"}
)  # fmt: skip


@audit_rule("gradient/detached", Rank.CALL)
def detached(audit: Audit) -> Finding | None:
    """Parameters that should learn are cut off from the loss.

    What happened
        Weights take part in the forward pass and are the optimizer's, and backward never gives them a gradient: between them and the
        loss something gave a result without a graph.
    Why it matters
        They stay as they were initialised, while the rest of the model learns around them.
    How it is detected
        Weights of recorded passes that never get a gradient and are bit for bit what they were; the tape is walked from them to
        the first result without gradient, or to where their numbers are copied into another weight's memory.
    How to fix it
        Keep the computation in torch; take no_grad or detach away where it is not meant.
    When it stays silent
        Weights that get a gradient in some pass, or whose optimizer has hardly stepped yet, parts that the loss does not use, weights that the program changes by itself
        (target networks), frozen and loaded ones, modules in eval mode.
    Cost
        A look at each weight of a few recorded steps.
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
        way = audit.tape.calls, entry.call, entry.weight
        cut = _cut_after(*way) or number_in_loss(*way)
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
        return tell_silent(
            audit,
            "gradient/detached",
            spot=spot or Spot.of_site(cut.site),
            step=cut.step,
            call=cut,
            verdict=f"{weights_text(names)} never {'gets' if len(names) == 1 else 'get'} a gradient: {_reason(cut)}",
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
        return "It ran with gradients switched off, so that the weights in it are constants to the loss."
    if is_copied(cut):
        return "A copy has weights of its own: gradients of what it computes go to these, and not to the weights that it was copied from."
    if cut.changed or cut.name == "data.__set__":
        return "The numbers are copied into another weight's memory, past autograd: to the loss that weight is a leaf, made from nothing."
    came = (
        "begins a graph of its own"
        if any(each.requires_grad for each in cut.outputs)
        else "has none"
    )
    return f"What went in had a gradient, what came out {came}: to everything behind it the weights before it are constants."


def _fix(cut: Call, leaves: bool) -> str:
    if is_copied(cut):
        return "Hand the gradients over before the step: p.grad = q.grad for each weight p and its copy q; or compute the loss with the weights themselves."
    if cut.changed or cut.name == "data.__set__":
        return "Compute with the tensor itself: torch.nn.functional.linear(x, w, b), or torch.func.functional_call(layer, {'weight': w}, x)."
    if cut.name in WRAPS and not leaves:
        return "Use the tensor itself, which has its graph: what wraps it makes a copy without one."
    if cut.name in TO_NUMBERS:
        return "Use the tensor itself in the loss: a number is for what is printed or kept."
    if leaves or cut.name in OUT_OF_TORCH:
        return "Stay in torch there: torch has the same functions, with derivatives."
    return "Take the cut away; if these weights are not to learn, freeze them with requires_grad_(False)."


def _uncut(cut: Call) -> str | None:
    """A diff that takes away what cuts a tensor off, and leaves the tensor: `x.detach()` and `torch.tensor(x)` become `x`."""
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
    """Whether it is given a list of tensors: these are to be put together, and not left as they are."""
    return bool(wrap.args) and isinstance(wrap.args[0], list | tuple)


def stacked(filename: str, node: ast.Call, kept: ast.expr) -> str | None:
    owner = ast.unparse(node.func.value) if isinstance(node.func, ast.Attribute) else ""
    return (
        diff_of(replace_node(filename, node, f"torch.stack({text_of(filename, kept)})"))
        if owner == "torch"
        else None
    )


def unwrapped(filename: str, node: ast.Call, kept: ast.expr) -> str | None:
    """A call gives way to one of its operands; where the operand is given its own name again, the line goes."""
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
        return f"{names[0]} is bit for bit what it was at first"
    return f"{', '.join(names[:2])}{' ...' if len(names) > 2 else ''} are bit for bit what they were at first"


def _leaves_torch(cut: Call, audit: Audit) -> bool:
    """Whether what was cut off goes on to numpy or plain numbers, where no gradient could follow it."""
    given = {id(each) for each in cut.outputs}
    return any(
        call.name in ("numpy", "__array__", "tolist")
        and any(id(each) in given for each in call.operands)
        for call in audit.tape.calls
    )


def _reason(cut: Call) -> str:
    return (
        f"{cut_text(cut)} cuts them off from the loss"
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
        # An adversary may be trained for several steps before these weights have their first.
        and audit.steps_over(weight) >= ENOUGH
        and not entry.has_changed()
    ]


@study_rule("gradient/detached", Rank.CALL)
def detached_in_a_step(study: Study) -> Finding | None:
    return _nothing_reached(study) or drawn_without_way(study)


def _nothing_reached(study: Study) -> Finding | None:
    """No weight of the optimizer that is about to step gets a gradient from the backward before it."""
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
    return tell_silent(
        study,
        "gradient/detached",
        spot=spot_at(cut.site),
        symptom=spot_at(study.stack[0] if study.stack else None),
        step=study.step,
        call=cut,
        verdict=f"no weight of this {study.entry.kind} gets a gradient: {_reason(cut)}",
        what=f"{study.entry.kind} steps, and none of its {len(own)} weights has a gradient",
        why="The loss that backward was called on is computed from them only through a result that has no graph.",
        fix="Take the cut away here. In the step of another optimizer it may be right.",
        patch=_uncut(cut),
    )


def _cuts_in(study: Study, weights: set[int]) -> Iterator[Call]:
    """What stands between these weights and the losses of the pass; they may have been used in the one before."""
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
        given = [each for each in call.operands if each.requires_grad]
        cuts = given and call.grad_mode and not any(each.requires_grad for each in call.outputs)
        if cuts and call.site is not None and weights & _graph_leaves(given):
            yield call


def _graph_leaves(values: Iterable[Value]) -> set[int]:
    """The weights that hang on the graphs of these."""
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
    """Forward over the tape from a weight, to the first call that made something without gradient of it."""
    calls = [call for call in tape if call.number >= first.number and call.step == first.step]
    reached = {id(value) for value in first.operands if value.tensor is weight}
    found: Call | None = None
    aside: Call | None = None
    for call in calls:
        if (
            call.inner
            or call.phase in ("optimizer", "data", "backward")
            or call.name.startswith("grad.")
        ):
            # Who looks at a weight's gradient cuts nothing off.
            continue
        given = [value for value in call.operands if id(value) in reached]
        if not given:
            continue
        written = _writes_past_the_graph(call, given)
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
            ) or _is_side(call, given if written else call.operands, calls):
                continue
            if not _goes_on(call, calls):
                # `weight.data.uniform_()`: nothing that learns is made from it, as far as torch shows.
                aside = call if aside is None or _is_part(aside, call, calls) else aside
            elif found is None or _is_part(found, call, calls) or _is_part(call, found, calls):
                # What was cut before is not the way, if it went on past that.
                found = call
            continue
        reached |= {id(value) for value in call.outputs}
    return found or aside


def _is_part(one: Call, other: Call, calls: Iterable[Call]) -> bool:
    """Whether what one call cuts off is a part of what the other does: what is cut as a whole explains more."""
    return one.operands[0] in _parts(other.operands, calls)[len(other.operands) :]


def _goes_on(cut: Call, calls: Iterable[Call]) -> bool:
    """Whether what was cut off meets something with a gradient further on, as a constant."""
    reached = {id(value) for value in cut.outputs}
    for call in calls:
        if call.number <= cut.number or not any(id(each) in reached for each in call.operands):
            continue
        if any(each.requires_grad for each in call.outputs):
            return True
        reached |= {id(value) for value in call.outputs}
    return False


def _writes_past_the_graph(call: Call, given: Sequence[Value]) -> bool:
    """`layer.weight.data.copy_(w)`, or without gradients: the numbers come into a weight's memory, and their graph does not."""
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
    """Whether what is cut off is only looked at, and the way itself goes on: its operand is used with gradient as well."""
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
    """These values, and behind them what was made of their own numbers."""
    found, known = [*values], {id(each) for each in values}
    for call in calls:
        if call.name in SAME_NUMBERS and any(id(each) in known for each in call.operands):
            found += call.outputs
            known |= {id(each) for each in call.outputs}
    return found
