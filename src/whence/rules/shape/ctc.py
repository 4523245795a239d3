"""Batch and time are swapped in the input of ctc_loss.

Reported by shape/batch-first, which documents it.
"""

from __future__ import annotations

from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.rules.operations import EXCHANGES
from whence.rules.telling import describe, failure_finding, shape_text, spot_at
from whence.tape.failed import FailedCall


def swapped_for_ctc(failed: FailedCall) -> Finding | None:
    """ctc_loss reads axis 0 as time, but it has the size of the lengths, one per sample."""
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
    return failure_finding(
        failed,
        "shape/batch-first",
        verdict=f"ctc_loss reads {shape_text(given.shape)} as (time, batch, classes), "
        f"but there are {samples} samples",
        spot=spot_at(ordered.site) if ordered is not None else None,
        why=f"input_lengths and target_lengths have {samples} entries, one per sample. That is the "
        f"size of axis 0; ctc_loss expects it on axis 1.",
        fix="Put time first where the axes are ordered, (time, batch, classes), if recurrent "
        "layers expect that order too; otherwise call transpose(0, 1) on the input of ctc_loss.",
        operands=(Operand("log_probs", describe(given)),),
        counterfactual="with the first two axes swapped the lengths fit",
    )


def _count(lengths: Any) -> int | None:
    if isinstance(lengths, torch.Tensor):
        return int(lengths.shape[0]) if lengths.dim() == 1 else None
    return len(lengths) if isinstance(lengths, list | tuple) else None
