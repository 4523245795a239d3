"""Causality: a prediction must not depend on later inputs.

Checked on request, and where the targets are the inputs shifted by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from whence.checking.calling import ModelCall
from whence.checking.departing import first_module
from whence.checking.places import place_of_module
from whence.checking.structure import mapped, tensors_in
from whence.checking.subject import Subject, forward, largest_difference, relative
from whence.checking.verdict import Verdict, failed

TOLERANCE = 1e-5
SHORTEST = 3


@dataclass(frozen=True, slots=True)
class Sequence:
    """An input with a time axis: samples on axis 0, time on axis 1."""

    path: str
    tensor: torch.Tensor

    @property
    def length(self) -> int:
        return int(self.tensor.shape[1])

    @property
    def samples(self) -> int:
        return int(self.tensor.shape[0])


def check_future(subject: Subject, said: list[str], notes: list[str]) -> Verdict | None:
    call = subject.call()
    if call is None or subject.given.causal is False:
        return None
    sequence = _shifted_input(subject, call)
    if sequence is None and subject.given.causal:
        sequence = _first_sequence(call)
        if sequence is None:
            notes.append("causal: not checked, because no input has sample and time axes")
    if sequence is None:
        return None
    model = subject.fresh().model.eval()
    step = sequence.length // 2 - 1 if sequence.length > SHORTEST else 0
    args, kwargs = _with_other_future(call, sequence, step)
    before, after = forward(model, call.args, call.kwargs), forward(model, args, kwargs)
    noise = largest_difference(before, forward(model, call.args, call.kwargs))
    seen = False
    for one, other in zip(before, after, strict=False):
        early = [_until(each, sequence, step) for each in (one, other)]
        if early[0] is None or early[1] is None or one.shape != other.shape:
            continue
        seen = True
        change = relative(early[0], early[1])
        if change > TOLERANCE + 10 * noise:
            return _leak(subject, call, sequence, step, change)
    if seen:
        said.append("no output depends on later time steps")
    else:
        notes.append("causal: not checked, because no output has a time axis")
    return None


def _shifted_input(subject: Subject, call: ModelCall) -> Sequence | None:
    """Find the input that some other tensor of the batch continues."""
    held = [each for _, each in tensors_in(subject.source.batch) if not each.is_floating_point()]
    for path, each in tensors_in((call.args, call.kwargs)):
        if each.is_floating_point() or each.dim() != 2 or each.shape[1] < SHORTEST:
            continue
        for target in held:
            if target.numel() == each.numel() and _is_shifted(each, target.reshape(each.shape)):
                return Sequence(path, each)
    return None


def _is_shifted(inputs: torch.Tensor, targets: torch.Tensor) -> bool:
    given, wanted = inputs[:, 1:], targets[:, :-1]
    counts = wanted >= 0
    if (
        inputs.dtype is torch.bool
        or not bool(counts.any())
        or bool((inputs == inputs[:, :1]).all())
    ):
        return False
    return bool((given == wanted)[counts].all())


def _first_sequence(call: ModelCall) -> Sequence | None:
    for path, each in tensors_in((call.args, call.kwargs)):
        tokens = each.dim() == 2 and not each.is_floating_point() and each.dtype is not torch.bool
        vectors = each.dim() == 3 and each.is_floating_point()
        if (tokens or vectors) and each.shape[1] >= SHORTEST:
            return Sequence(path, each)
    return None


def _with_other_future(call: ModelCall, sequence: Sequence, step: int) -> Any:
    """Replace all values after a step by other values of the tensor."""
    other = sequence.tensor.detach().clone()
    later = other[:, step + 1 :]
    turned = later.flip(0).flip(1)
    if torch.equal(turned, later):
        turned = later.flip(1).roll(1, 1)
    if torch.equal(turned, later):
        turned = other[:, :1].expand_as(later)
    other[:, step + 1 :] = turned
    return mapped((call.args, call.kwargs), lambda leaf: other if leaf is sequence.tensor else leaf)


def _until(output: torch.Tensor, sequence: Sequence, step: int) -> torch.Tensor | None:
    """Return the part of an output for steps up to a given one."""
    samples, length = sequence.samples, sequence.length
    if output.dim() >= 2 and tuple(output.shape[:2]) == (samples, length):
        return output[:, : step + 1]
    if output.dim() == 3 and output.shape[0] == samples and output.shape[2] == length:
        return output[:, :, : step + 1]
    if output.dim() == 2 and output.shape[0] == samples * length:
        return output.reshape(samples, length, -1)[:, : step + 1]
    return None


def _leak(
    subject: Subject, call: ModelCall, sequence: Sequence, step: int, change: float
) -> Verdict:
    def differs(one: torch.Tensor, other: torch.Tensor) -> bool:
        early = [_until(each, sequence, step) for each in (one, other)]
        return (
            early[0] is not None
            and early[1] is not None
            and relative(early[0], early[1]) > TOLERANCE
        )

    path = first_module(
        subject, (call.args, call.kwargs), _with_other_future(call, sequence, step), differs
    )
    named = path or type(subject.given.model).__name__
    return failed(
        f"changing only later inputs changes predictions up to step {step} by {change:.1e} of "
        "their size",
        why=(
            f"{named} sees future inputs, which contain the targets, so the loss becomes far "
            "too low."
        ),
        fix=(
            "Use a causal mask in attention (is_causal=True, generate_square_subsequent_mask); "
            "avoid bidirectional layers and convolutions padded on both sides."
        ),
        place=place_of_module(subject.given.model, path or ""),
    )
