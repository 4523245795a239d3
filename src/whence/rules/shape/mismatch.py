"""Shapes that a call rejects, for no reason that another rule knows."""

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
from whence.rules.telling import describe, failure_finding, shape_text
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
PROOF = "the same call on tensors without data, with these shapes and one dtype, fails as well"


@dataclass(frozen=True, slots=True)
class Change:
    """The operand and axis that differ from the last time the call succeeded."""

    value: Value
    axis: int
    before: tuple[int, ...]
    step: int


@rule("shape/changed", Rank.GENERAL)
def changed(failed: FailedCall) -> Finding | None:
    """A tensor changed size between batches, and a later call needs the old size.

    What happened
        A call that succeeded before now raises, because one of its operands has another size.
    Why it matters
        The model is consistent; this batch, or state kept from earlier batches, is different.
    How it is detected
        The call also fails on tensors without data, so the shapes alone are the cause, and the last
        successful call at the same line had another size there. The operand that changed is traced
        to its origin.
    How to fix it
        Restore the size at the origin, or compute the sizes that depend on it from the batch.
    When it stays silent
        If the call never succeeded before; shape/mismatch reports that.
    Cost
        None until a call raises.
    """
    change = _change(failed) if _shapes_alone(failed) else None
    if change is None:
        return None
    value, axis = change.value, change.axis
    kept = _kept(failed, change)
    if kept is not None and kept.site is not None:
        return failure_finding(
            failed,
            "shape/changed",
            verdict=f"{failed.name} got {shape_text(value.shape)}, but a tensor kept from step "
            f"{kept.step} fits {shape_text(change.before)}",
            spot=Spot.of_site(kept.site),
            why="The tensor was created in a forward pass for the batch of that step, kept, and "
            "not created again for this one.",
            fix="Create the tensor again when the size changes, or for each batch.",
            operands=_operands(failed),
            table=table(failed),
            counterfactual=PROOF,
        )
    if (leaf := changed_leaf(failed, value)) is not None:
        return _changed_in_batch(failed, change, leaf)
    return failure_finding(
        failed,
        "shape/changed",
        verdict=f"{failed.name} got {shape_text(value.shape)}; "
        f"it succeeded with {shape_text(change.before)}",
        trail=trace(value, HasAxis(axis, value.shape[axis]), failed) if value.shape else None,
        why=f"When this line last succeeded (step {change.step}), the operand was "
        f"{shape_text(change.before)}.",
        fix="Restore the size at the origin, or take the sizes that depend on it from the batch.",
        operands=_operands(failed),
        table=table(failed),
        counterfactual=PROOF,
    )


def _changed_in_batch(failed: FailedCall, change: Change, leaf: ChangedLeaf) -> Finding | None:
    now, before = shape_text(leaf.value.shape), shape_text(leaf.before)
    name = f"batch{leaf.leaf.path}" if leaf.leaf.path else "the batch"
    return failure_finding(
        failed,
        "shape/changed",
        verdict=f"the size of {name} changed: {now}, earlier {before}",
        trail=trace(leaf.value, HasAxis(leaf.axis, leaf.value.shape[leaf.axis]), failed),
        why=f"When this line last succeeded (step {change.step}), {failed.name} received "
        f"{shape_text(change.before)}; from this batch it receives "
        f"{shape_text(change.value.shape)}.",
        fix="Bring all samples to one size where they are created, or use a layer that accepts any "
        "size (an adaptive pool, a mean).",
        operands=_operands(failed),
        table=table(failed),
        counterfactual=PROOF,
    )


@rule("shape/mismatch", Rank.GENERAL)
def mismatch(failed: FailedCall) -> Finding | None:
    """Any other shape error.

    What happened
        A call raised because of the shapes of its operands. Or a checker (beartype, typeguard)
        found that an argument or a result violates its shape annotation (jaxtyping). Or the program
        asserts a size that a tensor does not have.
    Why it matters
        The finding shows each operand's shape and where it came from.
    How it is detected
        The call also fails on tensors without data, all of one dtype, so the shapes alone are the
        cause. An annotation is checked again with one axis changed, which shows the wrong axis.
    How to fix it
        Fix the shape at the origin.
    When it stays silent
        If the call runs on tensors of these shapes: then dtypes or values are the cause. A view of
        a non-contiguous tensor is reported anyway.
    Cost
        None until a call raises.
    """
    special = (
        broken_shape(failed) or asserted_size(failed) or mapped(failed) or of_distribution(failed)
    )
    if special is not None or (special := _not_contiguous(failed)) is not None:
        return special
    if not _shapes_alone(failed):
        return None
    if failed.name == "__getitem__" and not failed.call.operands[0].shape:
        return _indexed_number(failed)
    operands = failed.call.operands
    # A tensor read from a file is recorded before its memory is allocated.
    shapes = [tuple(each.shape) for each in failed.tensors()] or [each.shape for each in operands]
    few = (" and " if len(shapes) < 3 else ", ").join(map(shape_text, shapes))
    trail = _bare_weight(failed)
    return failure_finding(
        failed,
        "shape/mismatch",
        verdict=f"{failed.name} rejects the shapes "
        f"{few if len(operands) < 4 else f'of its {len(operands)} operands'}",
        trail=trail,
        why=f"The shapes alone are the cause: {failed.name} rejects them for any values.",
        fix="Fix the shape at the origin; the table shows the shape after each line."
        if trail is not None
        else "Make the operands fit: decide which axis of each corresponds to which.",
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
    return failure_finding(
        failed,
        "shape/mismatch",
        verdict="a tensor with a single value has no axis to index",
        why="The tensor is 0-dimensional, as the result of a loss is: a scalar, not a list.",
        fix="Read the value with .item().",
        operands=_operands(failed),
        patch=patch,
        counterfactual=PROOF,
    )


def _operands(failed: FailedCall) -> tuple[Operand, ...]:
    return tuple(
        Operand(f"operand {number}", describe(each)) for number, each in enumerate(failed.tensors())
    )


def _shapes_alone(failed: FailedCall) -> bool:
    """True if the call fails on tensors without data too, all operands of one dtype."""
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
    # A complex or infinite scalar argument is rejected with any shape.
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
    """An operand's changed size; a change that all operands share is another batch size."""
    earlier = failed.tape.earlier_at(failed.call)
    if earlier is None or len(earlier.operands) != len(failed.call.operands):
        return None
    changes = list(_changes(earlier, failed.call))
    lone = [each for each in changes if not _shared(each, changes)]
    return next(iter(lone), None)


def _kept(failed: FailedCall, change: Change) -> Call | None:
    """The call of an earlier forward pass whose kept result has the size of that step."""
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
    """The calls that decided the size of an axis, most recent first."""
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
    """Where a parameter that the program's own module owns was created, if one takes part."""
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


def _not_contiguous(failed: FailedCall) -> Finding | None:
    """A view of a transposed or sliced tensor; the same view of a copy runs."""
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
    # Reshape runs too, but scrambles the elements if axes should change places.
    is_exchange = crossed_axis(before, after) is not None
    moved = _reordering(failed.value(given))
    node = failed.site.node() if failed.site is not None else None
    is_method = (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "view"
    )
    return failure_finding(
        failed,
        "shape/mismatch",
        verdict=f"view needs contiguous memory; this {shape_text(given.shape)} tensor"
        + (
            f" comes from {moved.name}"
            if moved is not None and moved.site is not None
            else " is not contiguous"
        ),
        spot=Spot.of_site(failed.site) if failed.site is not None else None,
        chain=(Spot.of_site(moved.site).hop(f"{moved.name} returns a non-contiguous tensor"),)
        if moved is not None and moved.site is not None
        else (),
        why="A view copies nothing, so it can merge only axes that are adjacent in memory.",
        fix="Swap axes first with permute or transpose, then reshape: "
        f"{shape_text(before)} -> {shape_text(after)} moves one axis past another."
        if is_exchange
        else "Use reshape, which copies if it must, if the current element order is intended.",
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


def _reordering(value: Value) -> Call | None:
    """The call that sliced or reordered a contiguous tensor."""
    return (
        value.call
        if value.call is not None and value.call.name not in ("view", "contiguous")
        else None
    )
