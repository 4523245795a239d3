"""The ledger of labels: the targets of a loss in their order, where no loader delivers them."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import torch

from whence.source.sites import Site
from whence.tape.passes import Pass
from whence.tape.readable import is_readable
from whence.tape.tape import Call, Value

LOSSES: Final = frozenset(
    {
        "cross_entropy",
        "nll_loss",
        "binary_cross_entropy",
        "binary_cross_entropy_with_logits",
        "multi_margin_loss",
    }
)
MOST_STREAMS = 8
MOST_BATCHES = 1024
MOST_LABELS = 4096
MOST_ELEMENTS = 100_000
FIRST = 8
ENOUGH_MIXED = 32


@dataclass(eq=False, slots=True)
class Stream:
    """The labels of one call of a loss."""

    stack: tuple[Site, ...]
    batches: list[array[float]] = field(default_factory=list)
    marks: list[float | None] = field(default_factory=list)
    """For each batch, a fingerprint of the inputs that belong to the labels."""
    shape: tuple[int, ...] = ()
    """The shape of the first labels, without the batch axis."""
    steps: set[int] = field(default_factory=set)
    """The steps with labels."""
    last: int = 0
    """The step of the last labels."""
    gap: int = 1
    """The largest number of steps between the first batches."""
    closed: bool = False
    """Some labels were not recorded, so later ones do not belong to this stream."""


class LabelLedger:
    """The labels of a few losses, bounded, for as long as calls are recorded without a gap."""

    def __init__(self) -> None:
        self.streams: dict[tuple[Site, ...], Stream] = {}
        self.compared = False
        """Whether the lines that make inputs and labels have been read."""

    def note(self, call: Call, now: Pass, calls: Callable[[], list[Call]]) -> None:
        if (
            not call.grad_mode
            or call.inner
            or call.phase in ("data", "optimizer")
            or len(call.operands) < 2
        ):
            return
        target = call.args[1] if len(call.args) > 1 else call.kwargs.get("target")
        stream = self.streams.get(call.stack)
        if stream is None:
            if len(self.streams) >= MOST_STREAMS:
                return
            stream = self.streams[call.stack] = Stream(call.stack, last=call.step)
        if stream.closed:
            return
        labels = (
            labels_in(target)
            if isinstance(target, Value) and call.operands[0].requires_grad
            else None
        )
        between, stream.last = call.step - stream.last, call.step
        if len(stream.batches) < FIRST:
            stream.gap = max(stream.gap, between)
        if labels is None or between > stream.gap or len(stream.batches) >= MOST_BATCHES:
            stream.closed = True
            return
        if not stream.batches and isinstance(target, Value):
            stream.shape = target.shape[1:]
        stream.batches.append(labels)
        stream.steps.add(call.step)
        if (
            len(stream.batches) == ENOUGH_MIXED
            and sum(len(set(each)) > 1 for each in stream.batches) > ENOUGH_MIXED / 2
        ):
            # The labels are mixed, so the rest of the stream adds nothing.
            stream.closed = True
        stream.marks.append(_mark(_input_beside(len(labels), call, now, calls)))


def _input_beside(
    size: int, loss: Call, now: Pass, calls: Callable[[], list[Call]]
) -> torch.Tensor | None:
    """The data that a pass began with.

    These are the model's inputs, or the first operand with as many rows as there are labels.
    """
    given = [each for entry in now.entries for each in entry if each is not None and each.dim()]
    if not given:
        known = (
            value
            for call in calls()
            if call is not loss and not call.inner
            for value in call.operands
        )
        found = (
            value.tensor
            for value in known
            if not value.requires_grad and value.shape[:1] == (size,)
        )
        given = [each for each in found if each is not None and each.dim() > 1][:1]
    return next(
        (
            each
            for each in given
            if is_readable(each) and each.layout is torch.strided and each.numel()
        ),
        None,
    )


def _mark(tensor: torch.Tensor | None) -> float | None:
    if tensor is None or not is_readable(tensor) or tensor.is_complex():
        return None
    flat = tensor.detach().reshape(-1)[:MOST_ELEMENTS].double().nan_to_num(0.123, 4.56, 7.89)
    return float(flat @ torch.arange(len(flat), dtype=torch.float64).mul_(0.7).cos_())


def labels_in(target: Value) -> array[float] | None:
    """One class per sample, if the target has that form."""
    tensor = target.tensor
    if (
        tensor is None
        or tensor.requires_grad
        or not is_readable(tensor)
        or not 0 < tensor.numel() <= MOST_LABELS
    ):
        return None
    tensor = tensor.detach()
    if tensor.dim() == 2 and tensor.shape[1] > 1:
        chosen = tensor == 1
        if not bool(((chosen | (tensor == 0)).all(1) & (chosen.sum(1) == 1)).all()):
            return None
        tensor = chosen.int().argmax(1)
    if tensor.dim() > 2:
        return None
    # A list would keep an object for each value.
    found = array("d", tensor.reshape(-1).double().tolist())
    return found if all(each == int(each) for each in found if each == each) else None
