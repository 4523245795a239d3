"""Batch and time are swapped in what the CTC loss is given.

It is told by the rule of swapped axes, whose documentation speaks of it.
"""

from __future__ import annotations

from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.rules.operations import EXCHANGES
from whence.rules.telling import describe, shape_text, spot_at, tell
from whence.tape.failed import FailedCall


def swapped_for_ctc(failed: FailedCall) -> Finding | None:
    """One length for each sample, of the input and of the target: as many as the axis has that ctc_loss takes for time."""
    given = failed.argument(0, "log_probs")
    if failed.name != "ctc_loss" or not isinstance(given, torch.Tensor) or given.dim() != 3:
        return None
    counts = {
        _count(failed.argument(at, name))
        for at, name in ((2, "input_lengths"), (3, "target_lengths"))
    }
    samples = counts.pop() if len(counts) == 1 else None
    if samples is None or given.shape[1] == samples or given.shape[0] != samples:
        return None
    value = failed.value(given)
    ordered = next(
        (each for each in ancestors(value) if each.name in EXCHANGES and each.site is not None),
        None,
    )
    return tell(
        failed,
        "shape/batch-first",
        verdict=f"ctc_loss takes {shape_text(given.shape)} for {given.shape[0]} steps of {given.shape[1]} samples, and there are {samples} samples",
        spot=spot_at(ordered.site) if ordered is not None else None,
        why=f"It reads (time, batch, classes). There are lengths of {samples} samples, which is the size of the first axis.",
        fix="Put time first where the order of the axes is made, (time, batch, classes), if recurrent layers behind it want that too; "
        "or transpose(0, 1) what the loss is given.",
        operands=(Operand("log_probs", describe(given)),),
        counterfactual="with the first two axes exchanged the lengths fit",
    )


def _count(lengths: Any) -> int | None:
    if isinstance(lengths, torch.Tensor):
        return int(lengths.shape[0]) if lengths.dim() == 1 else None
    return len(lengths) if isinstance(lengths, list | tuple) else None
