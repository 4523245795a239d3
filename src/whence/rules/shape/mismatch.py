"""Shapes that a call refuses, for no reason that another rule knows."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.properties import HasAxis, axis_source
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.operations import STRICT, weight_of
from whence.rules.rule import Rank, rule
from whence.rules.shape.annotation import broken_shape
from whence.rules.shape.asserted import asserted_size
from whence.rules.shape.distribution import of_distribution
from whence.rules.shape.earlier import ChangedLeaf, changed_leaf
from whence.rules.shape.layers import table
from whence.rules.shape.mapped import mapped
from whence.rules.shape.permuting import permuted
from whence.rules.shape.reshaped import crossed_axis
from whence.rules.telling import describe, shape_text, tell
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value, map_leaves
from whence.tape.trial import CannotTry, try_shapes, try_values

NOT_ABOUT_SHAPES = frozenset(
    {"backward", "item", "numpy", "tolist", "__bool__", "__float__", "__int__", "step", "grad"}
)
ABOUT_SIZES = (RuntimeError, ValueError, IndexError)
LONGEST_CHAIN = 40
PROOF = "the same call on tensors without data, of these shapes and one type, fails as well"


@dataclass(frozen=True, slots=True)
class Change:
    """The operand and axis that differ from the last time the call went well."""

    value: Value
    axis: int
    before: tuple[int, ...]
    step: int


@rule("shape/changed", Rank.GENERAL)
def changed(failed: FailedCall) -> Finding | None:
    """A tensor changed size between batches, and something downstream depends on it.

    What happened
        A call that went well before was refused now, because one of its operands has another size than it had.
    Why it matters
        The model is not wrong from the start: something made this batch, or what is kept from earlier ones, differ.
    How it is detected
        The call fails in the same way on tensors without data, so the shapes alone are the fault; and the last call at
        the same place that went well had another size there. The operand that changed is followed back.
    How to fix it
        Make the size the same again at the origin, or let what depends on it follow.
    When it stays silent
        If the call never went well before: that is shape/mismatch.
    Cost
        None until a call raises.
    """
    change = _change(failed) if _shapes_alone(failed) else None
    if change is None:
        return None
    value, axis = change.value, change.axis
    kept = _kept(failed, change)
    if kept is not None and kept.site is not None:
        return tell(
            failed,
            "shape/changed",
            verdict=f"{failed.name} got {shape_text(value.shape)} now, and what was kept from step {kept.step} "
            f"is still for {shape_text(change.before)}",
            spot=Spot.of_site(kept.site),
            why="It was made in a forward pass to fit the batch of that time, kept, and not made anew for this one.",
            fix="Make it anew when the size is another one, or for each batch.",
            operands=_operands(failed),
            table=table(failed),
            counterfactual=PROOF,
        )
    if (leaf := changed_leaf(failed, value)) is not None:
        return _changed_in_batch(failed, change, leaf)
    return tell(
        failed,
        "shape/changed",
        verdict=f"{failed.name} worked with {shape_text(change.before)} and got {shape_text(value.shape)} now",
        trail=trace(value, HasAxis(axis, value.shape[axis]), failed) if value.shape else None,
        why=f"The last time this line went well (step {change.step}) the operand was {shape_text(change.before)}.",
        fix="Make the size the same again where it is made, or let what depends on it follow the batch.",
        operands=_operands(failed),
        table=table(failed),
        counterfactual=PROOF,
    )


def _changed_in_batch(failed: FailedCall, change: Change, leaf: ChangedLeaf) -> Finding | None:
    now, before = shape_text(leaf.value.shape), shape_text(leaf.before)
    name = f"{leaf.leaf.path} of the batch" if leaf.leaf.path else "the batch"
    return tell(
        failed,
        "shape/changed",
        verdict=f"{name} is {now} now and was {before}: what worked with the one cannot take the other",
        trail=trace(leaf.value, HasAxis(leaf.axis, leaf.value.shape[leaf.axis]), failed),
        why=f"The last time this line went well (step {change.step}) it was given {shape_text(change.before)}; "
        f"of this batch comes {shape_text(change.value.shape)}.",
        fix="Bring the samples to one size where they are made, or let what depends on it follow (an adaptive pool, a mean).",
        operands=_operands(failed),
        table=table(failed),
        counterfactual=PROOF,
    )


@rule("shape/mismatch", Rank.GENERAL)
def mismatch(failed: FailedCall) -> Finding | None:
    """Any other shape error.

    What happened
        A call was refused because of the shapes of its operands; or a checker (beartype, typeguard) found that an argument or a
        result does not have the shape that its annotation (jaxtyping's) says; or the program asserts a size that a tensor does not have.
    Why it matters
        What helps is each operand's shape, and where it came from.
    How it is detected
        The call fails in the same way on tensors without data, all of one type: so the shapes alone are the fault. An annotation is
        asked again with what the function was given, and with one axis changed: so the axis that is wrong is known.
    How to fix it
        Mend the shape where it departed.
    When it stays silent
        If the call runs on tensors of these shapes: then the fault is in types or values. A view of elements that do not lie in
        their order is told, though.
    Cost
        None until a call raises.
    """
    told = (
        broken_shape(failed) or asserted_size(failed) or mapped(failed) or of_distribution(failed)
    )
    if told is not None or (told := _not_in_order(failed)) is not None:
        return told
    if not _shapes_alone(failed):
        return None
    if failed.name == "__getitem__" and not failed.call.operands[0].shape:
        return _indexed_number(failed)
    operands = failed.call.operands
    # What was read from a file was entered before it had its memory.
    shapes = [tuple(each.shape) for each in failed.tensors()] or [each.shape for each in operands]
    few = " and ".join(map(shape_text, shapes))
    trail = _bare_weight(failed)
    return tell(
        failed,
        "shape/mismatch",
        verdict=f"{failed.name} cannot take {few if len(operands) < 4 else f'these {len(operands)} shapes'}",
        trail=trail,
        why=f"The shapes alone are the fault: {failed.name} refuses them whatever the numbers are.",
        fix="Mend the shape at the origin; the table shows what each line made of it."
        if trail is not None
        else "Make the operands fit: look which axis is meant to meet which.",
        operands=_operands(failed),
        table=table(failed),
        counterfactual=PROOF,
    )


def _indexed_number(failed: FailedCall) -> Finding | None:
    node = failed.site.node() if failed.site is not None else None
    patch = None
    if failed.site is not None and isinstance(node, ast.Subscript):
        number = f"{in_parentheses(failed.site.filename, node.value)}.item()"
        patch = diff_of(replace_node(failed.site.filename, node, number))
    return tell(
        failed,
        "shape/mismatch",
        verdict="a tensor of a single number has no axis to index",
        why="What a loss gives is 0-dimensional: it is a number, and not the first of a list.",
        fix="Take the number with .item().",
        operands=_operands(failed),
        patch=patch,
        counterfactual=PROOF,
    )


def _operands(failed: FailedCall) -> tuple[Operand, ...]:
    return tuple(
        Operand(f"operand {number}", describe(each)) for number, each in enumerate(failed.tensors())
    )


def _shapes_alone(failed: FailedCall) -> bool:
    """True if the call fails without data too, all operands of one type."""
    call = failed.call
    if not call.operands or not callable(failed.func) or isinstance(failed.func, torch.nn.Module):
        return False
    if call.name in NOT_ABOUT_SHAPES or not isinstance(failed.exception, ABOUT_SIZES):
        return False
    strict = call.name in STRICT
    floats = {
        each: torch.float32
        for each in call.operands
        if each.dtype.is_floating_point or (strict and each.dtype != torch.bool)
    }
    # A rate that is Inf, or a complex one, is refused with any shape.
    call = replace(
        call, args=map_leaves(_ordinary, call.args), kwargs=map_leaves(_ordinary, call.kwargs)
    )
    refusal = try_shapes(call, dtypes=floats).exception
    return isinstance(refusal, ABOUT_SIZES) and not isinstance(
        refusal, CannotTry | NotImplementedError
    )


def _ordinary(thing: Any) -> Any:
    return (
        1.0
        if isinstance(thing, float | complex)
        and not (isinstance(thing, float) and math.isfinite(thing))
        else thing
    )


def _change(failed: FailedCall) -> Change | None:
    """What is new about an operand; a size that is new in all operands alike is a batch of another size, and no fault."""
    earlier = failed.tape.earlier_at(failed.call)
    if earlier is None or len(earlier.operands) != len(failed.call.operands):
        return None
    changes = list(_changes(earlier, failed.call))
    lone = [each for each in changes if not _shared(each, changes)]
    return next(iter(lone), None)


def _kept(failed: FailedCall, change: Change) -> Call | None:
    """The call of an earlier forward pass whose result is used again, and has the size that the other operand had then."""
    earlier = failed.tape.earlier_at(failed.call)
    for before, value in (
        zip(earlier.operands, failed.call.operands, strict=True) if earlier is not None else ()
    ):
        if value is change.value or value.requires_grad or value.shape != before.shape:
            continue
        made = [
            call for call in _made_by(before, change.axis) if call in _made_by(value, change.axis)
        ]
        if made and made[0].phase == "forward" and made[0].step < failed.call.step:
            return made[0]
    return None


def _made_by(value: Value, axis: int) -> list[Call]:
    """The calls that decided the size of an axis, the last one first."""
    found: list[Call] = []
    while value.call is not None and len(found) < LONGEST_CHAIN and -axis <= len(value.shape):
        found.append(value.call)
        sources = axis_source(value.call, value, axis) or []
        if len(sources) != 1:
            break
        value, axis = sources[0]
    return found


def _changes(earlier: Call, now: Call) -> list[Change]:
    found: list[Change] = []
    for before, value in zip(earlier.operands, now.operands, strict=True):
        if len(before.shape) != len(value.shape):
            found.append(Change(value, -1, before.shape, earlier.step))
            continue
        for axis in range(-len(value.shape), 0):
            if before.shape[axis] != value.shape[axis]:
                found.append(Change(value, axis, before.shape, earlier.step))
    return found


def _shared(change: Change, changes: list[Change]) -> bool:
    """True if the other operands changed to the same size."""
    size = change.value.shape[change.axis] if change.value.shape else None
    others = [each for each in changes if each.value is not change.value and each.value.shape]
    return any(each.value.shape[each.axis] == size for each in others)


def _bare_weight(failed: FailedCall) -> Trail | None:
    """Where a parameter that a module of the program's keeps itself was made, if one takes part."""
    weight = weight_of(failed)
    values = (
        [failed.value(weight)]
        if weight is not None
        else [each for each in failed.call.operands if each.requires_grad]
    )
    for value in values:
        trail = trace(value, HasAxis(-1, value.shape[-1]), failed) if value.shape else None
        if (
            trail is not None
            and trail.birth is Birth.LAYER
            and trail.op is None
            and trail.spot is not None
        ):
            return trail
    return None


def _not_in_order(failed: FailedCall) -> Finding | None:
    """A view of a tensor whose axes were exchanged, or that is a part of another: it runs on a copy."""
    given = next(failed.tensors(), None)
    if (
        failed.name != "view"
        or given is None
        or given.layout is not torch.strided
        or given.is_contiguous()
        or not callable(failed.func)
    ):
        return None
    tried = try_values(failed.func, failed.args, failed.kwargs, torch.Tensor.contiguous)
    if not isinstance(tried.result, torch.Tensor):
        return None
    before, after = tuple(given.shape), tuple(tried.result.shape)
    # To reshape runs as well, and scrambles what is to change places.
    is_exchange = crossed_axis(before, after) is not None
    moved = _out_of_order(failed.value(given))
    node = failed.site.node() if failed.site is not None else None
    is_method = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "view"
    )
    return tell(
        failed,
        "shape/mismatch",
        verdict=f"view cannot count the elements of {shape_text(given.shape)} anew: they do not lie in that order in memory",
        spot=Spot.of_site(failed.site) if failed.site is not None else None,
        chain=(Spot.of_site(moved.site).hop(f"{moved.name} gives another order"),)
        if moved is not None and moved.site is not None
        else (),
        why="A view copies nothing, so that it can only join axes that lie one behind the other.",
        fix=f"Exchange axes first, with permute or transpose, and then reshape: {shape_text(before)} -> {shape_text(after)} moves an axis past another."
        if is_exchange
        else "Use reshape, which copies where it must, if the elements are meant to be joined in the order in which they stand now.",
        patch=permuted(failed.site, before, after)
        if is_exchange and failed.site is not None
        else diff_of(
            replace_node(
                failed.site.filename,
                node.func,
                f"{in_parentheses(failed.site.filename, node.func.value)}.reshape",
            )
        )
        if is_method
        and isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and failed.site is not None
        else None,
        operands=_operands(failed),
        counterfactual="the same view of a contiguous copy runs",
    )


def _out_of_order(value: Value) -> Call | None:
    """The call that gave a part, or another order, of something that lay in order."""
    return (
        value.call
        if value.call is not None and value.call.name not in ("view", "contiguous")
        else None
    )
