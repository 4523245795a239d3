"""The batch axis lost on the way: a literal in a reshape, a squeeze that took too much."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import accumulate
from math import prod
from operator import mul

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.rules.operations import RESHAPES
from whence.rules.rule import Rank, rule
from whence.rules.shape.fixed_rows import FixedRows, fixed_rows
from whence.rules.source_operands import is_written
from whence.rules.telling import describe, shape_text, tell
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call, Value, flatten
from whence.tape.trial import try_shapes


def _suspects(failed: FailedCall) -> Iterator[Call]:
    """The failed call and what led to its operands within this step, as far as the program's own lines name it."""
    if failed.name in BACKWARDS:
        # Shapes had their chance in the forward pass.
        return
    yield failed.call
    for call in ancestors(*failed.call.operands):
        # A library's sizes are none of the program's mistakes.
        if call.step == failed.call.step and call.phase != "data" and is_written(call):
            yield call


def batch_size(failed: FailedCall) -> int | None:
    """The number of samples in the batch that is being worked on, where a loader delivered one."""
    current = failed.loaders.current
    if current is None:
        return None
    if current.indices is not None:
        return len(current.indices)
    return next((shape[0] for _, shape, _ in current.signature if shape), None)


def _leftover(failed: FailedCall) -> str:
    current = failed.loaders.current
    if current is None or not current.info.batch_size:
        return ""
    length, size, here = current.info.length(), current.info.batch_size, batch_size(failed)
    if length and here == length % size:
        return f" Batch {current.number} has {here} rows, all before had {size}: {length} % {size}."
    return ""


@rule("shape/hardcoded-batch", Rank.CAUSE)
def hardcoded_batch(failed: FailedCall) -> Finding | None:
    """A reshape, or a tensor made on the way, assumes one fixed batch size.

    What happened
        A view or reshape has the batch size written into it as a number, and this batch has another one. Or a token is expanded,
        or a tensor made, to that many rows.
    Why it matters
        It fails at the last batch of the epoch, or it succeeds with the wrong rows and something later fails.
    How it is detected
        A reshape on the way to the failure whose input begins with the batch axis, and whose literal first size is not it.
        Two operands that had the same rows before and do not now, and those of one are a number given to a call in this step.
    How to fix it
        Use x.size(0), or -1 for the batch and numbers for the rest.
    When it stays silent
        Reshapes that merge batch and time on purpose (view(-1, C)), and those whose literal fits.
    Cost
        None until a call raises.
    """
    for call in _suspects(failed):
        found = _literal_batch(failed, call)
        if found is not None:
            literal, rows = found
            spot = Spot.of_site(call.site) if call.site is not None else None
            given = call.operands[0]
            return tell(
                failed,
                "shape/hardcoded-batch",
                verdict=f"{call.name} assumes a batch of {literal}, this one has {rows}",
                spot=spot,
                why=f"The input is {shape_text(given.shape)}; the first size asked for is the number {literal}, which fitted "
                f"only batches of {literal}.{_leftover(failed)}",
                fix="Write x.size(0) instead of the number, or -1 if the other sizes are known.",
                patch=size_taken(spot, call)
                if rows == given.shape[0]
                else _exchange_patch(failed, spot, call),
                operands=(
                    Operand("input", describe(given)),
                    Operand("asked for", shape_text(_asked(call))),
                ),
                counterfactual=f"{prod(given.shape)} elements make {rows} rows of {prod(given.shape) // rows}",
            )
    fixed = fixed_rows(failed)
    return _told_rows(failed, fixed) if fixed is not None else None


def _told_rows(failed: FailedCall, fixed: FixedRows) -> Finding | None:
    literal, rows = fixed.value.shape[0], fixed.other.shape[0]
    mended = try_shapes(failed.call, {fixed.value: (rows, *fixed.value.shape[1:])})
    return tell(
        failed,
        "shape/hardcoded-batch",
        verdict=f"{fixed.call.name} makes {literal} rows whatever the batch has, this one has {rows}",
        spot=Spot.of_site(fixed.call.site) if fixed.call.site is not None else None,
        why=f"{failed.name} gets {shape_text(fixed.value.shape)} and {shape_text(fixed.other.shape)}: the first size of the one "
        f"is the number {literal}, which fitted only batches of {literal}.{_leftover(failed)}",
        fix="Take the number of rows from the batch, x.size(0).",
        patch=fixed.patch(),
        operands=(Operand("made", describe(fixed.value)), Operand("batch", describe(fixed.other))),
        counterfactual=f"{failed.name} runs with {shape_text((rows, *fixed.value.shape[1:]))}"
        if mended.ran
        else None,
    )


def _asked(call: Call) -> tuple[int, ...]:
    sizes = [each for each in flatten((call.args[1:], call.kwargs)) if isinstance(each, int)]
    return tuple(sizes)


def _literal_batch(failed: FailedCall, call: Call) -> tuple[int, int] | None:
    """The literal and the true number of rows, if a reshape has the wrong batch size written into it."""
    if call.name not in RESHAPES or not call.operands or not call.operands[0].shape:
        return None
    asked, given = _asked(call), call.operands[0]
    if not asked or asked[0] <= 0 or asked[0] == given.shape[0]:
        return None
    literal, rows = asked[0], given.shape[0]
    if literal in accumulate(given.shape, mul):
        # This batch and the axes behind it as one: whatever was written there, it follows the batch.
        return None
    earlier = failed.tape.earlier_at(call)
    before = earlier.operands[0].shape if earlier is not None and earlier.operands else ()
    if before[:1] == (literal,):
        return literal, rows
    if before[1:] == given.shape[1:] and before and before[0] != rows and before[0] % literal == 0:
        # Batch and another axis were one: 32 * 8 rows fitted, 20 * 8 do not.
        samples, rest = divmod(rows * literal, before[0])
        return (literal, samples) if not rest else None
    rest = prod(each for each in asked[1:] if each > 0)
    per_sample = prod(given.shape[1:])
    same_rest = -1 not in asked and rest == per_sample
    known_batch = batch_size(failed) == rows and (same_rest or -1 in asked[1:])
    return (literal, rows) if (same_rest and rows > 1) or known_batch else None


def _sizes(node: ast.Call) -> tuple[ast.expr, list[ast.expr]]:
    """What is reshaped, and the sizes that are asked for."""
    method = isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
    )
    subject = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0]
    sizes: list[ast.expr] = node.args if method else node.args[1:]
    return subject, sizes[0].elts if len(sizes) == 1 and isinstance(
        sizes[0], ast.Tuple | ast.List
    ) else sizes


def _exchange_patch(failed: FailedCall, spot: Spot | None, call: Call) -> str | None:
    """-1 for the batch, and the number that stood for it before where -1 was."""
    node = spot.node() if spot is not None else None
    earlier = failed.tape.earlier_at(call)
    asked = _asked(call)
    sizes = _sizes(node)[1] if isinstance(node, ast.Call) else []
    if spot is None or earlier is None or len(sizes) != len(asked) or -1 not in asked:
        return None
    at = asked.index(-1)
    known = str(earlier.outputs[0].shape[at])
    return diff_of(
        replace_node(spot.filename, sizes[0], "-1"), replace_node(spot.filename, sizes[at], known)
    )


def size_taken(spot: Spot | None, call: Call) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    subject, sizes = _sizes(node)
    if not sizes:
        return None
    rest_known = not any(isinstance(each, int) and each == -1 for each in _asked(call))
    simple = isinstance(subject, ast.Name | ast.Attribute)
    text = f"{ast.unparse(subject)}.size(0)" if simple else "-1" if rest_known else None
    return diff_of(replace_node(spot.filename, sizes[0], text)) if text is not None else None


@rule("shape/squeezed-batch", Rank.CAUSE)
def squeezed_batch(failed: FailedCall) -> Finding | None:
    """squeeze removed the batch axis of a batch of one.

    What happened
        A squeeze() without an axis took away every axis of size one; in a batch of one sample that is the batch axis too.
    Why it matters
        It works for every other batch, and what fails is some later call.
    How it is detected
        A squeeze without axis on the way to the failure whose input had a first axis of one, where it is the batch.
    How to fix it
        Name the axis: squeeze(-1).
    When it stays silent
        Squeezes that name their axis, and those that left the batch axis alone.
    Cost
        None until a call raises.
    """
    for call in _suspects(failed):
        if call.name != "squeeze" or len(call.args) + len(call.kwargs) != 1 or not call.outputs:
            continue
        given, made = call.operands[0], call.outputs[0]
        if given.shape[:1] != (1,) or not _is_batch_axis(failed, call, given):
            continue
        spot = Spot.of_site(call.site) if call.site is not None else None
        return tell(
            failed,
            "shape/squeezed-batch",
            verdict="squeeze() removed the batch axis of a batch of one",
            spot=spot,
            why=f"Without an axis squeeze removes every axis of size one: {shape_text(given.shape)} became "
            f"{shape_text(made.shape)}.{_leftover(failed)}",
            fix="Name the axis that is meant, squeeze(-1).",
            patch=axis_named(spot, given),
            operands=(Operand("input", describe(given)), Operand("squeezed", describe(made))),
            counterfactual=f"squeeze(-1) of it would be {shape_text(given.shape[:-1] if given.shape[-1] == 1 else given.shape)}",
        )
    return None


def _is_batch_axis(failed: FailedCall, call: Call, given: Value) -> bool:
    for earlier in failed.tape.all_earlier_at(call):
        if (
            earlier.operands
            and len(earlier.operands[0].shape) == len(given.shape)
            and earlier.operands[0].shape[0] != 1
        ):
            return True
    return batch_size(failed) == 1


def axis_named(spot: Spot | None, given: Value) -> str | None:
    node = spot.node() if spot is not None else None
    axes = [at - len(given.shape) for at, size in enumerate(given.shape) if size == 1 and at > 0]
    if (
        spot is None
        or not isinstance(node, ast.Call)
        or not isinstance(node.func, ast.Attribute)
        or len(axes) != 1
    ):
        return None
    if isinstance(node.func.value, ast.Name) and node.func.value.id == "torch":
        return diff_of(replace_node(spot.filename, node, f"{ast.unparse(node)[:-1]}, {axes[0]})"))
    return diff_of(replace_node(spot.filename, node, f"{ast.unparse(node.func)}({axes[0]})"))
