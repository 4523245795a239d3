"""A lost batch axis: a literal size in a reshape, or a squeeze that removed too much."""

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
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call, Value, flatten
from whence.tape.trial import try_shapes


def _suspects(failed: FailedCall) -> Iterator[Call]:
    """The failed call, and the program's own calls of this step that led to its operands."""
    if failed.name in BACKWARDS:
        # The forward pass has already accepted the shapes.
        return
    yield failed.call
    for call in ancestors(*failed.call.operands):
        # Sizes inside a library are not the program's mistake.
        if call.step == failed.call.step and call.phase != "data" and is_written(call):
            yield call


def batch_size(failed: FailedCall) -> int | None:
    """The number of samples in the current batch, if a loader delivered it."""
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
        return (
            f" Batch {current.number} has {here} row{'s' if here != 1 else ''} ({length} % "
            f"{size}); all earlier batches had {size}."
        )
    return ""


@rule("shape/hardcoded-batch", Rank.CAUSE)
def hardcoded_batch(failed: FailedCall) -> Finding | None:
    """A reshape, or a tensor created in forward, assumes a fixed batch size.

    What happened
        A view or reshape contains the batch size as a literal, and this batch has another size.
        Or a token is expanded, or a tensor created, with that many rows.
    Why it matters
        The program fails at the last batch of the epoch, or the reshape succeeds with the wrong
        rows and a later call fails.
    How it is detected
        Whence finds a reshape on the path to the failure whose input begins with the batch axis and
        whose literal first size differs from it. Or two operands had the same number of rows
        before, now differ, and the rows of one come from an integer passed to a call in this step.
    How to fix it
        Use x.size(0), or -1 for the batch and literals for the rest.
    When it stays silent
        Reshapes that merge batch and time on purpose (view(-1, C)), and literals that fit.
    Cost
        None until a call raises.
    """
    for call in _suspects(failed):
        found = _literal_batch(failed, call)
        if found is not None:
            literal, rows = found
            spot = Spot.of_site(call.site) if call.site is not None else None
            given = call.operands[0]
            return failure_finding(
                failed,
                "shape/hardcoded-batch",
                verdict=f"{call.name} assumes a batch size of {literal}, got {rows}",
                spot=spot,
                why=f"The input is {shape_text(given.shape)}, and the first size passed to "
                f"{call.name} is {literal}, which fits only batches of {literal}."
                f"{_leftover(failed)}",
                fix=f"Replace {literal} by x.size(0), or by -1 if the other sizes are known.",
                patch=size_from_batch_patch(spot, call)
                if rows == given.shape[0]
                else _exchange_patch(failed, spot, call),
                operands=(
                    Operand("input", describe(given)),
                    Operand("requested", shape_text(_asked(call))),
                ),
                counterfactual=f"{prod(given.shape)} elements make {rows} rows of "
                f"{prod(given.shape) // rows}",
            )
    fixed = fixed_rows(failed)
    return _report_fixed_rows(failed, fixed) if fixed is not None else None


def _report_fixed_rows(failed: FailedCall, fixed: FixedRows) -> Finding | None:
    literal, rows = fixed.value.shape[0], fixed.other.shape[0]
    trial = try_shapes(failed.call, {fixed.value: (rows, *fixed.value.shape[1:])})
    return failure_finding(
        failed,
        "shape/hardcoded-batch",
        verdict=f"{fixed.call.name} always makes {literal} rows, this batch has {rows}",
        spot=Spot.of_site(fixed.call.site) if fixed.call.site is not None else None,
        why=f"{failed.name} receives {shape_text(fixed.value.shape)} and "
        f"{shape_text(fixed.other.shape)}. The first size comes from the number {literal}, which "
        f"fits only batches of {literal}.{_leftover(failed)}",
        fix=f"Take the number of rows in {fixed.call.name} from the batch: x.size(0).",
        patch=fixed.patch(),
        operands=(
            Operand("created", describe(fixed.value)),
            Operand("batch", describe(fixed.other)),
        ),
        counterfactual=f"{failed.name} runs with {shape_text((rows, *fixed.value.shape[1:]))}"
        if trial.ran
        else None,
    )


def _asked(call: Call) -> tuple[int, ...]:
    sizes = [each for each in flatten((call.args[1:], call.kwargs)) if isinstance(each, int)]
    return tuple(sizes)


def _literal_batch(failed: FailedCall, call: Call) -> tuple[int, int] | None:
    """The literal and the true number of rows, if a reshape contains the wrong batch size."""
    if call.name not in RESHAPES or not call.operands or not call.operands[0].shape:
        return None
    asked, given = _asked(call), call.operands[0]
    if not asked or asked[0] <= 0 or asked[0] == given.shape[0]:
        return None
    literal, rows = asked[0], given.shape[0]
    if literal in accumulate(given.shape, mul):
        # Batch and following axes merged: the size follows the batch, however it was computed.
        return None
    earlier = failed.tape.earlier_at(call)
    before = earlier.operands[0].shape if earlier is not None and earlier.operands else ()
    if before[:1] == (literal,):
        return literal, rows
    if before[1:] == given.shape[1:] and before and before[0] != rows and before[0] % literal == 0:
        # Batch and another axis were merged: 32 * 8 rows fitted, 20 * 8 do not.
        samples, rest = divmod(rows * literal, before[0])
        return (literal, samples) if not rest else None
    rest = prod(each for each in asked[1:] if each > 0)
    per_sample = prod(given.shape[1:])
    same_rest = -1 not in asked and rest == per_sample
    known_batch = batch_size(failed) == rows and (same_rest or -1 in asked[1:])
    return (literal, rows) if (same_rest and rows > 1) or known_batch else None


def _sizes(node: ast.Call) -> tuple[ast.expr, list[ast.expr]]:
    """The reshaped expression and the requested sizes."""
    method = isinstance(node.func, ast.Attribute) and not (
        isinstance(node.func.value, ast.Name) and node.func.value.id == "torch"
    )
    subject = node.func.value if method and isinstance(node.func, ast.Attribute) else node.args[0]
    sizes: list[ast.expr] = node.args if method else node.args[1:]
    return subject, sizes[0].elts if len(sizes) == 1 and isinstance(
        sizes[0], ast.Tuple | ast.List
    ) else sizes


def _exchange_patch(failed: FailedCall, spot: Spot | None, call: Call) -> str | None:
    """Put -1 in place of the batch literal, and the size that -1 had before in its place."""
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


def size_from_batch_patch(spot: Spot | None, call: Call) -> str | None:
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
        A squeeze() without a dim removed every axis of size 1. For a batch with one sample, that
        includes the batch axis.
    Why it matters
        It works for every larger batch, and the call that fails is a later one.
    How it is detected
        A squeeze without a dim on the path to the failure, whose input had a batch axis of size 1.
    How to fix it
        Name the axis: squeeze(-1).
    When it stays silent
        Squeezes that name their axis, and those that kept the batch axis.
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
        return failure_finding(
            failed,
            "shape/squeezed-batch",
            verdict="squeeze() removed the batch axis of a batch of one",
            spot=spot,
            why="Without a dim, squeeze removes every axis of size 1: "
            f"{shape_text(given.shape)} became {shape_text(made.shape)}.{_leftover(failed)}",
            fix="Name the axis to remove: squeeze(-1).",
            patch=named_axis_patch(spot, given),
            operands=(Operand("input", describe(given)), Operand("squeezed", describe(made))),
            counterfactual="squeeze(-1) would give "
            f"{shape_text(given.shape[:-1] if given.shape[-1] == 1 else given.shape)}",
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


def named_axis_patch(spot: Spot | None, given: Value) -> str | None:
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
