"""Unsigned arithmetic wrapped around.

What happened
    uint8 values were added or subtracted, and the result does not fit: 10 - 20 is 246.
Why it matters
    Dark pixels become bright. Nothing raises, and the data look almost right.
How it is detected
    Each addition or subtraction of uint8 (int8) tensors while calls are recorded is repeated in
    wider integers and compared. ~ of uint8 zeros and ones, which gives 255 and 254, is found if a
    loss depends on the result as numbers.
How to fix it
    Convert to float (or int16) before the arithmetic.
When it stays silent
    Results that fit; bit operations; labels decreased by one, so that 0 becomes 255, which is then
    ignored; a few wrapped elements (hashes and checksums wrap on purpose, in wider integers).
Cost
    None without uint8 arithmetic.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.lineage.arrays import Wrap, seen_before, sums_of_program
from whence.lineage.datasets.shares import are_bytes, are_shares_of_bytes
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.rules.operations import SAME_NUMBERS
from whence.rules.rule import call_rule, study_rule
from whence.rules.telling import call_finding, dtype_name, silent_finding, spot_at
from whence.source.edits import diff_of, in_parentheses, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.batches import leaves_of
from whence.tape.tape import Call, Value

SIGNS = {"add": 1, "__add__": 1, "sub": -1, "__sub__": -1, "subtract": -1}
INVERTS = frozenset({"__invert__", "bitwise_not"})
BITWISE = (
    INVERTS
    | SAME_NUMBERS
    | {"__and__", "__or__", "__xor__", "bitwise_and", "bitwise_or", "bitwise_xor", "bool"}
)
NARROW = (torch.uint8, torch.int8)
OTHER_END = "values below 0 or above 255 wrap around"
ENOUGH = 0.01
PATIENCE = 5.0
FEW = 4


@call_rule("dtype/uint8-wrap")
def wrapped(call: Call) -> Finding | None:
    sign = SIGNS.get(call.name)
    if (
        sign is None
        or not call.outputs
        or call.outputs[0].dtype not in NARROW
        or call.site is None
        or len(call.args) < 2
    ):
        return None
    one, other = (each.tensor if isinstance(each, Value) else each for each in call.args[:2])
    result = call.outputs[0].tensor
    if not isinstance(one, torch.Tensor) or other is None or result is None or result.numel() == 0:
        return None
    if isinstance(other, int) and sign * other == -1:
        # Classes counted from 1: 0 becomes 255, a common ignore_index.
        return None
    wide = one.to(torch.int32) + sign * (
        other.to(torch.int32) if isinstance(other, torch.Tensor) else other
    )
    wrong = wide != result
    share = float(wrong.float().mean())
    if share < ENOUGH:
        return None
    index = tuple(torch.nonzero(wrong)[0].tolist())
    verdict = (
        f"{dtype_name(result.dtype)} {call.name.strip('_')} wrapped around in {share:.0%} of the "
        f"elements: {int(wide[index])} became {int(result[index])}"
    )
    return call_finding(
        call,
        "dtype/uint8-wrap",
        verdict=verdict,
        why=f"{dtype_name(result.dtype)} holds "
        f"{'0 to 255' if result.dtype is torch.uint8 else '-128 to 127'}; other results wrap "
        "around.",
        fix="Convert before the arithmetic: .float() or .to(torch.int16).",
        what=verdict,
        patch=_widened(
            Spot.of_site(call.site), [isinstance(each, Value) for each in call.args], ".int()"
        ),
    )


@study_rule("dtype/uint8-wrap")
def wrapped_before_training(study: Study) -> Finding | None:
    """Unsigned NumPy arithmetic wrapped around in code that ran before training.

    The check runs if a batch holds bytes, and reports if the batch contains the wrapped result.
    """
    question = "dtype/uint8-wrap"
    if (found_here := _inverted_bytes(study)) is not None:
        return found_here
    if question in study.asked or "dtype/uint8-wrap" in study.told or not study.now.deliveries:
        return None
    study.asked.add(question)
    leaves = (
        each
        for _, data in study.now.deliveries
        for _, each in leaves_of(data)
        if isinstance(each, torch.Tensor)
    )
    samples = [
        sample for each in leaves if each.dim() > 1 and each.numel() for sample in _bytes_of(each)
    ]
    wanted = list(sums_of_program()) if samples else []

    def reaches(made: Any) -> bool:
        whole = made.tobytes()
        return any(each in whole for each in samples)

    try:
        found = (
            run_in_child(
                lambda: seen_before(wanted, study.frames, reaches).wraps,
                PATIENCE,
                need=Need.PREPARATION,
            )
            if wanted
            else None
        )
    except NotPossible:
        return None
    if found is None or found.share < ENOUGH:
        return None
    return wrapped_finding(study, found, study.now.deliveries[0][0].info.built, OTHER_END)


def _inverted_bytes(study: Study) -> Finding | None:
    """`~done` of uint8 zeros and ones: 255 and 254 instead of 1 and 0. Correct again after `&`."""
    for loss, call in study.loss_calls():
        if call.name in BITWISE or call.inner:
            continue
        for value in call.operands:
            turned = _before_casts(value).call
            if (
                turned is None
                or turned.name not in INVERTS
                or turned.outputs[0].dtype is not torch.uint8
            ):
                continue
            bits = study.content(turned.operands[0])
            if bits is None or not bits.numel() or int(bits.max()) > 1 or turned.site is None:
                continue
            return silent_finding(
                study,
                "dtype/uint8-wrap",
                spot=Spot.of_site(turned.site),
                symptom=Spot.of_site(call.site)
                if call.site is not None
                else spot_at(loss.call.site),
                call=turned,
                step=study.step,
                verdict="~ on uint8 zeros and ones gives 255 and 254, not 1 and 0",
                what=f"{call.name} uses 255 and 254 as numbers",
                why="~ inverts all eight bits of a byte; only bool tensors are negated logically.",
                fix="Use 1 - x, or convert to bool first: ~x.bool().",
                patch=_negation_patch(Spot.of_site(turned.site)),
                replay="bit-identical",
            )
    return None


def _before_casts(value: Value) -> Value:
    """The value before it was moved or cast."""
    while (
        value.call is not None
        and value.call.name in SAME_NUMBERS
        and value.call.operands
        and not value.call.forgotten
    ):
        value = value.call.operands[0]
    return value


def _negation_patch(spot: Spot) -> str | None:
    node = spot.node()
    if not isinstance(node, ast.UnaryOp) or not isinstance(node.op, ast.Invert):
        return None
    return diff_of(
        replace_node(spot.filename, node, f"(1 - {text_of(spot.filename, node.operand)})")
    )


def _bytes_of(leaf: torch.Tensor) -> Iterator[bytes]:
    """A few samples as the bytes they were before scaling. Token ids are wider integers."""
    if not leaf.dtype.is_floating_point and leaf.dtype is not torch.uint8:
        return
    scale = 255 if are_shares_of_bytes(leaf) else 1 if are_bytes(leaf) else None
    for each in leaf[:FEW] if scale is not None else ():
        yield bytes((each.double() * scale).round().to(torch.uint8).flatten().tolist())


def wrapped_finding(
    facts: Study | Audit, found: Wrap, symptom: Spot | None, what: str
) -> Finding | None:
    """Report wrapped NumPy arithmetic, which no PyTorch call shows."""
    return silent_finding(
        facts,
        "dtype/uint8-wrap",
        spot=found.spot,
        symptom=symptom,
        step=facts.step,
        op=found.op,
        phase="data",
        severity=Severity.WARNING,
        verdict=f"{found.op} on uint8 wrapped around in {found.count} elements",
        what=what,
        why="uint8 holds 0 to 255; other results wrap around: 10 - 20 is 246, 200 + 100 is 44.",
        fix="Convert to a wider type before the arithmetic: .astype(np.int16), or float.",
        patch=_widened(found.spot, [found.is_array_first], '.astype("int32")'),
        counterfactual="the same operation in wide integers leaves the range 0 to 255 in "
        f"{found.count} elements",
    )


def _widened(spot: Spot, are_arrays: Sequence[bool], cast: str) -> str | None:
    """Change `after - before` to `after.int() - before`: promotion widens the other operand."""
    node = spot.node()
    sides = (
        zip((node.left, node.right), are_arrays, strict=False)
        if isinstance(node, ast.BinOp)
        else ()
    )
    first = next((each for each, is_one in sides if is_one), None)
    if first is None:
        return None
    return diff_of(
        replace_node(spot.filename, first, f"{in_parentheses(spot.filename, first)}{cast}")
    )
