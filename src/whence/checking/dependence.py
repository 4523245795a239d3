"""Outputs depend on the inputs, and only on those of their own sample.

The model only receives valid data: one sample is replaced by another, and the outputs are compared.
Every pass draws the same random numbers, in eval mode, where batch normalisation is off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from whence.checking.axes import Layout
from whence.checking.causality import check_future
from whence.checking.departing import first_module
from whence.checking.jitter import jitter
from whence.checking.places import place_of_class, place_of_module
from whence.checking.structure import mapped, real_tensors, tensors_in
from whence.checking.subject import Subject, forward, largest_difference, relative
from whence.checking.verdict import Verdict, failed, passed, unchecked
from whence.torch_internals import BatchNorm

TOLERANCE = 1e-5
RUNS_ALONG = (
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.TransformerEncoderLayer,
    nn.TransformerDecoderLayer,
)


@dataclass(frozen=True, slots=True)
class Probe:
    """Return the arguments with one sample replaced by another."""

    row: int
    args: Any
    kwargs: Any


def check_dependence(subject: Subject) -> Verdict:
    call = subject.call()
    if call is None:
        return unchecked(
            "the loss does not call the model itself, so its inputs and outputs are unknown"
        )
    if not any(True for _ in tensors_in((call.args, call.kwargs))):
        return unchecked("the model receives no tensors")
    model = subject.fresh().model.eval()
    if not real_tensors(call.output):
        return unchecked("the model returns no floating-point tensors")
    plain = forward(model, call.args, call.kwargs)
    if not all(bool(torch.isfinite(each).all()) for each in plain):
        return unchecked("the outputs are not finite")
    verdict = _on_inputs(subject, call.args, call.kwargs)
    if verdict is not None:
        return verdict
    said = ["outputs depend on the inputs"]
    notes: list[str] = []
    verdict = _on_others(subject, call.args, call.kwargs, said, notes)
    verdict = verdict or check_future(subject, said, notes)
    return verdict or passed(", ".join(said), notes)


def _on_inputs(subject: Subject, args: Any, kwargs: Any) -> Verdict | None:
    """Change all inputs and require a change in the outputs, first with the weights unchanged.

    If nothing changes, the weights are perturbed as well.
    """
    moved_args, moved_kwargs = mapped((args, kwargs), _moved)
    if _same((args, kwargs), (moved_args, moved_kwargs)):
        return None
    for number in range(4):
        model = subject.fresh().model.eval()
        if number:
            jitter(model, number)
        try:
            before = forward(model, args, kwargs)
            after = forward(model, moved_args, moved_kwargs)
        except Exception:
            return None
        if largest_difference(before, after) > 0:
            return None
    return failed(
        "the outputs do not depend on the inputs",
        why=(
            "All inputs were replaced by others and no output changed, even with perturbed weights."
        ),
        fix=(
            "Find an input that is overwritten, multiplied by zero or never used, or units that "
            "are all dead."
        ),
        place=place_of_class(type(subject.given.model)),
    )


def _same(some: Any, others: Any) -> bool:
    pairs = zip(tensors_in(some), tensors_in(others), strict=True)
    return all(one is other or torch.equal(one, other) for (_, one), (_, other) in pairs)


def _moved(leaf: Any) -> Any:
    """Return other valid values: the tensor's own in another order, real ones shifted as well."""
    if not isinstance(leaf, torch.Tensor) or not leaf.numel() or leaf.layout is not torch.strided:
        return leaf
    leaf = leaf.detach()
    if leaf.dtype is torch.bool:
        return leaf
    turned = leaf.reshape(-1).roll(1).flip(0).reshape(leaf.shape)
    if leaf.is_floating_point():
        spread = float(leaf.float().std(unbiased=False)) or 1.0
        return turned + (
            0.5 * spread * torch.cos(torch.arange(leaf.numel())).reshape(leaf.shape)
        ).to(leaf)
    return turned


def _on_others(
    subject: Subject, args: Any, kwargs: Any, said: list[str], notes: list[str]
) -> Verdict | None:
    layout = subject.layout
    if layout is None or layout.size < 2:
        notes.append(
            "sample independence: not checked, because the batch has no recognisable sample axis"
        )
        return None
    if any(isinstance(each, BatchNorm) and each.running_mean is None for each in _modules(subject)):
        notes.append(
            "sample independence: not checked, because a BatchNorm without running statistics "
            "mixes samples"
        )
        return None
    model = subject.fresh().model.eval()
    watched = False
    for probe in _probes(layout, args, kwargs):
        try:
            before, after = forward(model, args, kwargs), forward(model, probe.args, probe.kwargs)
            noise = largest_difference(before, forward(model, args, kwargs))
        except Exception:
            notes.append(
                "sample independence: not checked, because the model rejects a batch with a "
                "repeated sample"
            )
            return None
        for one, other in zip(before, after, strict=False):
            axis = layout.axis(one)
            if axis is None or one.shape != other.shape or _counts_samples_twice(one, layout):
                continue
            watched = True
            rest = [row for row in range(layout.size) if row != probe.row]
            index = torch.tensor(rest, device=one.device)
            apart = relative(one.index_select(axis, index), other.index_select(axis, index))
            if apart > TOLERANCE + 10 * noise:
                return _mixed(subject, layout, args, kwargs, probe, apart)
    if watched:
        said.append("each sample only on its own")
    else:
        notes.append("sample independence: not checked, because no output has a sample axis")
    return None


def _modules(subject: Subject) -> list[nn.Module]:
    return list(subject.given.model.modules())


def _counts_samples_twice(tensor: torch.Tensor, layout: Layout) -> bool:
    """Whether an output is a table of sample pairs, as in contrastive models."""
    return list(tensor.shape[:2]) == [layout.size] * 2


def _probes(layout: Layout, args: Any, kwargs: Any) -> list[Probe]:
    """Replace the last sample, then the first: a recurrence over the batch shows at one end."""
    found = []
    for row in (layout.size - 1, 0):
        for other in range(layout.size):
            rows = [other if each == row else each for each in range(layout.size)]
            probe = Probe(row, *(layout.take(each, rows) for each in (args, kwargs)))
            if not _same((args, kwargs), (probe.args, probe.kwargs)):
                found.append(probe)
                break
    return found


def _mixed(
    subject: Subject, layout: Layout, args: Any, kwargs: Any, probe: Probe, apart: float
) -> Verdict:
    path = first_module(
        subject,
        (args, kwargs),
        (probe.args, probe.kwargs),
        lambda one, other: _others_differ(one, other, layout, probe.row),
    )
    module = subject.given.model.get_submodule(path) if path is not None else None
    named = f"{path} ({type(module).__name__})" if path else type(subject.given.model).__name__
    if isinstance(module, RUNS_ALONG):
        why = (
            f"{named} treats the sample axis as time: the first axis is time without "
            "batch_first=True, and for any 2-D input."
        )
        fix = (
            "Build it with batch_first=True, or pass (time, batch, features); for a single step "
            "use unsqueeze(1)."
        )
    else:
        why = (
            f"Samples are first mixed in {named}: a softmax, mean or attention over axis 0, or "
            "a reshape that moves samples."
        )
        fix = (
            "Reduce and normalise over the axes after the first. For one graph or one set, add "
            "a batch axis of size 1."
        )
    return failed(
        f"replacing sample {probe.row} changes the outputs of other samples by {apart:.1e} of "
        "their size",
        why=why,
        fix=fix,
        place=place_of_module(subject.given.model, path or ""),
    )


def _others_differ(one: torch.Tensor, other: torch.Tensor, layout: Layout, row: int) -> bool:
    axis = layout.axis(one)
    if axis is None:
        return False
    index = torch.tensor([each for each in range(layout.size) if each != row], device=one.device)
    return relative(one.index_select(axis, index), other.index_select(axis, index)) > TOLERANCE
