"""Uninitialised memory was read.

What happened
    `torch.empty` (or a similar function) returns memory with arbitrary contents. A computation read
    it before anything was written to it.
Why it matters
    The result changes from run to run, and is sometimes NaN or huge.
How it is detected
    On the tape, a call on the path to the loss reads memory that no call has written since its
    allocation. Where a loss or a gradient is not finite, the NaN is traced back to the call that
    allocated the tensor.
How to fix it
    Use `torch.zeros`, or initialise the tensor right after its creation.
When it stays silent
    Where the memory is written before it is read, fully or in part, or shared with numpy; for
    tensors of which only the shape is used; for trial passes whose gradients no update uses: on the
    meta device, with a copy of the model, or cleared again.
Cost
    A pass over the tape of a few recorded steps.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any

from whence.finding import Finding, Operand, Severity
from whence.ledgers.study import Study
from whence.lineage.births import UNINITIALISED
from whence.rules.nonfinite.forward import forward_finding, scenario_of
from whence.rules.nonfinite.reasons import Reason
from whence.rules.rule import Rank, study_rule, trip_rule
from whence.rules.source_operands import operand_nodes
from whence.rules.telling import describe, place_of, silent_finding, spot_at
from whence.source.definitions import find_definition
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, statement_of
from whence.tape.tape import Call, Tape, Value, flatten
from whence.tape.trip import Consequence, Trip

VIEWS = frozenset({"view", "reshape", "expand", "unsqueeze", "squeeze", "__getitem__", "transpose",
                   "permute", "t", "T.__get__", "detach", "_make_subclass", "Parameter",
                   "requires_grad_", "data.__get__", "narrow", "select", "flatten", "chunk",
                   "split"})  # fmt: skip
CONSTRUCTORS = frozenset({"Tensor", "FloatTensor", "DoubleTensor", "HalfTensor"})
HANDED_ON = frozenset(
    {
        "numpy",
        "__array__",
        "data_ptr",
        "untyped_storage",
        "storage",
        "__dlpack__",
        "share_memory_",
        "set_",
    }
)
LEND_SHAPE = (
    "_like",
    "_as",
    "shape",
    "size",
    "broadcast_tensors",
    "broadcast_to",
    "new_zeros",
    "new_ones",
    "new_full",
    "new_empty",
)


@dataclass(frozen=True, slots=True)
class Blank:
    """Uninitialised memory."""

    name: str
    """The function that allocated it."""
    value: Value
    spot: Spot | None
    call: Call | None = None


@study_rule("nonfinite/uninitialised", Rank.CAUSE)
def read_before_written(study: Study) -> Finding | None:
    suspects = [
        (loss, call, value, made)
        for loss, call in study.loss_calls()
        if call.name not in VIEWS
        and not call.name.endswith(LEND_SHAPE)
        and "out" not in call.kwargs
        for value in call.operands
        if value not in call.changed and (made := _blank(call, value, study)) is not None
    ]
    written = _written(study.tape) if suspects else set()
    for loss, call, value, made in suspects:
        if made.value.storage in written or not made.value.numel or not study.is_used(loss):
            continue
        spot = made.spot
        return silent_finding(
            study,
            "nonfinite/uninitialised",
            spot=spot,
            symptom=spot_at(loss.call.site),
            call=made.call or call,
            step=study.step,
            verdict=f"uninitialised memory from {made.name} is read by {call.name}",
            what=f"{call.name} reads uninitialised memory, and the loss depends on the result",
            why=f"{made.name} does not set its elements: they hold whatever was in memory, and "
            "differ from run to run.",
            fix=f"Replace {made.name} with torch.zeros, or initialise the tensor before use.",
            patch=_as_zeros(spot),
            chain=()
            if call.site is None
            else (Spot.of_site(call.site).hop(f"{call.name} reads the memory"),),
            operands=(Operand("read", describe(value)),),
        )
    return None


def _blank(user: Call, value: Value, study: Study) -> Blank | None:
    """The uninitialised memory behind a value, if any."""
    for _ in range(20):
        call = value.call
        if call is None:
            return _by_constructor(user, value)
        if call.forgotten:
            return None
        if call.name in UNINITIALISED:
            return (
                Blank(call.name, call.outputs[0], place_of(call, study), call)
                if value in call.outputs
                else None
            )
        if call.name not in VIEWS or not call.operands or call.operands[0].storage != value.storage:
            return None
        user, value = call, call.operands[0]
    return None


def _by_constructor(user: Call, value: Value) -> Blank | None:
    """Find `torch.Tensor(rows, 1)` in the source, because PyTorch does not dispatch it.

    Only local variables of the function that reads it: others may have been written unobserved.
    """
    site = user.site
    scope = function_node(site) if site is not None else None
    if site is None or value.leaf is not None or not isinstance(scope, ast.FunctionDef):
        return None
    nodes = operand_nodes(user)
    place = user.operands.index(value)
    name = nodes[place] if place < len(nodes) else None
    found = (
        find_definition(name.id, scope, statement_of(name)) if isinstance(name, ast.Name) else None
    )
    made = found.value if found is not None and not found.path else None
    if (
        not isinstance(made, ast.Call)
        or last_name(made.func) not in CONSTRUCTORS
        or not made.args
        or made.keywords
    ):
        return None
    if not all(_is_size(each, site.f_globals) for each in made.args):
        return None
    return Blank(ast.unparse(made.func), value, Spot.of_node(site.filename, made))


def _is_size(node: ast.expr, names: dict[str, Any]) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) is int
        case ast.Name(id=name):
            return type(names.get(name)) is int
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant()):
            return True
        case (
            ast.Call(func=ast.Attribute(attr="size"), args=[ast.Constant()])
            | ast.Call(func=ast.Name(id="len"))
        ):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_size(left, names) and _is_size(right, names)
    return False


def _written(tape: Tape) -> set[int]:
    """Storages that a call has written to, or that code outside PyTorch can write to."""
    found: set[int] = set()
    for call in tape.calls:
        found |= {each.storage for each in call.changed}
        if call.name in HANDED_ON:
            found |= {each.storage for each in call.operands}
        if "out" in call.kwargs:
            found |= {
                each.storage for each in flatten(call.kwargs["out"]) if isinstance(each, Value)
            }
    return found


def _as_zeros(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr not in ("empty", "empty_like", "new_empty"):
        return None
    name = f"{ast.unparse(node.func.value)}.{node.func.attr.replace('empty', 'zeros')}"
    return diff_of(replace_node(spot.filename, node.func, name))


@trip_rule("nonfinite/uninitialised", Rank.CAUSE)
def uninitialised(trip: Trip) -> Finding | None:
    """The NaN or Inf was in memory that was never written."""
    scenario = scenario_of(trip)
    if scenario is None or scenario.call.name not in UNINITIALISED:
        return None
    scenario.reason = Reason(
        verdict=f"uninitialised memory from {scenario.call.name} is read",
        why=f"{scenario.call.name} does not set its elements: they hold whatever was in memory.",
        fix=f"Replace {scenario.call.name} with torch.zeros, or initialise the tensor before use.",
    )
    found = forward_finding("nonfinite/uninitialised", scenario)
    if found is None:
        return None
    # No update used the result: a trial pass on memory that happens to hold NaN.
    is_idle = trip.consequence in (Consequence.SKIPPED, Consequence.REPORTED)
    severity = Severity.INFO if is_idle else found.severity
    return replace(found, patch=_as_zeros(scenario.spot), severity=severity)
