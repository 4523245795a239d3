"""An attention mask or positional table does not fit the sequence.

What happened
    A table of positions or a mask was created for one length, and this batch has another.
Why it matters
    The table's length is a constant in a constructor; the data decide the sequence length.
How it is detected
    One operand is a parameter, a buffer or a slice of one, and the other is data. Or attention runs
    once its mask is removed. Or positions counted by arange exceed the size of an embedding. If the
    program truncates the sequence and then adds the excess tokens, that line is reported.
How to fix it
    Make the table as long as the longest sequence, truncate the sequence, or build the mask from
    the length of the sequence.
When it stays silent
    Tables and masks that fit.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast
from itertools import islice
from typing import Any

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.properties import WEIGHTED, HasAxis
from whence.lineage.trail import trace
from whence.rules.operations import ATTENTION, ELEMENTWISE
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding, has_worked, shape_text
from whence.source.edits import diff_of, replace_node
from whence.source.limits import overrun_limit
from whence.source.spots import Spot
from whence.source.text import enclosing, text_of
from whence.tape.failed import FailedCall
from whence.tape.tape import Call, Value
from whence.tape.trial import try_values

MOST_CALLS = 60
SLICES = frozenset(
    {
        "__getitem__",
        "narrow",
        "expand",
        "expand_as",
        "unsqueeze",
        "view",
        "reshape",
        "transpose",
        "permute",
        "to",
        "detach",
        "requires_grad_",
        "index_select",
        "t",
        "T.__get__",
        "eq",
        "__eq__",
        "bool",
    }
)


@rule("shape/sequence-length")
def sequence_length(failed: FailedCall) -> Finding | None:
    if failed.name in ELEMENTWISE:
        return _table_against_data(failed)
    if failed.name in ATTENTION:
        return _mask(failed)
    if failed.name == "embedding":
        return _positions(failed)
    return None


def _table_against_data(failed: FailedCall) -> Finding | None:
    tensors = [each for each in failed.tensors() if each.dim() >= 2]
    if len(tensors) != 2:
        return None
    for table, data in (tensors, tensors[::-1]):
        if not _is_kept(failed, table) or _is_kept(failed, data):
            continue
        axes = [
            at
            for at in range(-min(table.dim(), data.dim()), 0)
            if table.shape[at] != data.shape[at] and 1 not in (table.shape[at], data.shape[at])
        ]
        if not axes or (axes == [-1] and not _is_square(table)):
            return None
        axis = axes[-1] if axes[-1] != -1 or _is_square(table) else axes[0]
        operand = Operand("data", describe(data))
        return _overrun(failed, table, axis, (failed.value(data), axis), operand) or _report_length(
            failed, table, axis, data.shape[axis], operand
        )
    return None


def _overrun(
    failed: FailedCall, table: torch.Tensor, axis: int, given: tuple[Value, int], other: Operand
) -> Finding | None:
    """The sequence was truncated to the table's length, and a few tokens were added after that."""
    has, needed = table.shape[axis], given[0].shape[given[1]]
    trail = trace(given[0], HasAxis(given[1], needed), failed) if needed > has else None
    node = trail.spot.node() if trail is not None and trail.spot is not None else None
    limit = overrun_limit(node, has, needed - has) if node is not None else None
    if trail is None or trail.spot is None or limit is None:
        return None
    filename, text = trail.spot.filename, text_of(trail.spot.filename, limit)
    cut = enclosing(limit, ast.Subscript)
    return failure_finding(
        failed,
        "shape/sequence-length",
        verdict=f"the table has {has} positions, the sequence {needed}: it was truncated to {has}, "
        "then extended",
        trail=trail,
        spot=Spot.of_node(filename, cut or limit),
        why=f"This line truncates to `{text}` and then adds {needed - has} more, so the longest "
        f"sequences have {needed}.",
        fix=f"Reserve room for the added tokens: truncate to `{text} - {needed - has}`.",
        patch=diff_of(replace_node(filename, limit, f"{text} - {needed - has}")),
        operands=(Operand("table", describe(table)), other),
    )


def _counted(failed: FailedCall, length: int) -> Value | None:
    """The sequence whose positions are counted: the latest integers of that length in this step."""
    for call in islice(reversed(failed.tape.calls), MOST_CALLS):
        for value in call.operands:
            if (
                value.dtype in (torch.int64, torch.int32)
                and len(value.shape) > 1
                and value.shape[-1] == length
            ):
                return value if call.step == failed.call.step else None
    return None


def _is_square(table: torch.Tensor) -> bool:
    return table.shape[-1] == table.shape[-2]


def _is_kept(failed: FailedCall, tensor: torch.Tensor) -> bool:
    """True for a tensor that a module holds, and for a slice of one."""
    value: Value | None = failed.value(tensor)
    for _ in range(8):
        if value is None:
            return False
        kept = value.tensor
        if kept is not None and (failed.modules.owner_of(kept) or failed.modules.holder_of(kept)):
            return True
        if value.call is None or value.call.name not in SLICES or not value.call.operands:
            return False
        value = value.call.operands[0]
    return False


def _comes_from_kept(failed: FailedCall, mask: torch.Tensor) -> bool:
    """The same, also if a layer has converted its dtype."""
    made = [
        operand for call in islice(ancestors(failed.value(mask)), 8) for operand in call.operands
    ]
    return _is_kept(failed, mask) or any(
        each.tensor is not None
        and (failed.modules.owner_of(each.tensor) or failed.modules.holder_of(each.tensor))
        for each in made
    )


def _report_length(
    failed: FailedCall,
    table: torch.Tensor,
    axis: int,
    needed: int,
    other: Operand,
    proof: str | None = None,
    lengthened: Call | None = None,
) -> Finding | None:
    has = table.shape[axis]
    trail = trace(failed.value(table), HasAxis(axis, has), failed)
    outside = trail.sized if has_worked(failed) else None
    if lengthened is not None and lengthened.site is not None:
        outside = Spot.of_site(lengthened.site)
    return failure_finding(
        failed,
        "shape/sequence-length",
        verdict=f"the table or mask has {has} positions, the sequence has {needed}",
        trail=trail,
        spot=outside,
        why=f"{shape_text(table.shape)} was created for {has} positions; this batch has {needed}."
        if lengthened is None
        else f"{lengthened.name} changes the sequence from {has} to {needed} positions here; the "
        f"mask still has {has}.",
        fix="Extend the mask in the same way: as many positions, at the same end."
        if lengthened is not None
        else f"Create the table or mask with at least {needed} positions, truncate the sequence to "
        f"{has}, or build it from the length of the sequence.",
        operands=(Operand("table", describe(table)), other),
        counterfactual=proof,
    )


MASKS = (
    "attn_mask",
    "mask",
    "src_mask",
    "tgt_mask",
    "memory_mask",
    "key_padding_mask",
    "src_key_padding_mask",
    "tgt_key_padding_mask",
)


def _mask(failed: FailedCall) -> Finding | None:
    """The mask without which the attention call runs."""
    masks = {
        name: each
        for name, each in failed.kwargs.items()
        if name in MASKS and isinstance(each, torch.Tensor)
    }
    if (
        failed.name == "scaled_dot_product_attention"
        and len(failed.args) > 3
        and isinstance(failed.args[3], torch.Tensor)
    ):
        masks["attn_mask"] = failed.args[3]
    query = failed.argument(0, "query")
    if isinstance(failed.func, nn.Module):
        masks |= {
            f"argument {at}": each
            for at, each in enumerate(failed.args)
            if at
            and isinstance(each, torch.Tensor)
            and each.dim() == 2
            and isinstance(query, torch.Tensor)
            and each.shape[-1] != _length(failed, query)
        }
    for name, mask in masks.items():
        if not isinstance(failed.func, nn.Module) and not _runs_without(failed, name, mask):
            continue
        if not isinstance(query, torch.Tensor) or mask.dim() == 0:
            continue
        sizes = [size for size in query.shape[:-1] if size != mask.shape[-1]]
        length = _length(failed, query)
        needed = length if length != mask.shape[-1] else sizes[0] if sizes else length
        proof = "the same attention without the mask runs"
        # A mask that a module holds has a fixed length; one from the data had the data's length.
        made = (
            None
            if _comes_from_kept(failed, mask)
            else _lengthened(failed.value(query), mask.shape[-1], needed)
        )
        return _report_length(
            failed, mask, -1, needed, Operand("query", describe(query)), proof, made
        )
    return None


def _lengthened(value: Value, had: int, has: int) -> Call | None:
    """The call that changed the length of a sequence but not its mask, e.g. prepended a token."""
    for call in islice(ancestors(value), MOST_CALLS):
        for made in call.results:
            for given in call.operands:
                changes = [
                    (one, other)
                    for one, other in zip(given.shape, made.shape, strict=False)
                    if one != other
                ]
                if (
                    len(given.shape) == len(made.shape) > 1
                    and changes == [(had, has)]
                    and call.name not in WEIGHTED
                ):
                    return call
    return None


def _length(failed: FailedCall, query: torch.Tensor) -> int:
    if failed.name == "scaled_dot_product_attention":
        return query.shape[-2]
    layer = failed.layer
    # multi_head_attention_forward has the length first, whatever the layer's batch_first.
    first = isinstance(failed.func, nn.Module) and bool(getattr(layer, "batch_first", False))
    return query.shape[1 if first and query.dim() == 3 else 0]


def _runs_without(failed: FailedCall, name: str, mask: torch.Tensor) -> bool:
    args = tuple(None if each is mask else each for each in failed.args)
    kwargs: dict[str, Any] = {**failed.kwargs, **({name: None} if name in failed.kwargs else {})}
    return try_values(failed.func, args, kwargs).ran


def _positions(failed: FailedCall) -> Finding | None:
    index, weight = failed.argument(0, "input"), failed.argument(1, "weight")
    if (
        not isinstance(index, torch.Tensor)
        or not isinstance(weight, torch.Tensor)
        or not index.numel()
        or index.is_meta
    ):
        return None
    value = failed.value(index)
    made_by = [value.call, *ancestors(value)] if value.call is not None else []
    counted = any(call is not None and call.name == "arange" for call in made_by[:6])
    if not counted or int(index.max()) < weight.shape[0]:
        return None
    operand, sequence = (
        Operand("positions", describe(index)),
        _counted(failed, int(index.max()) + 1),
    )
    found = (
        _overrun(failed, weight, 0 - weight.dim(), (sequence, -1), operand)
        if sequence is not None
        else None
    )
    return found or _report_length(failed, weight, 0 - weight.dim(), int(index.max()) + 1, operand)
