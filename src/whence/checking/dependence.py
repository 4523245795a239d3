"""Outputs depend on the inputs, on those of their own sample only, and, where time is causal, not on later ones.

Nothing but valid data is given to the model: a sample is put in the place of another, and what changes is looked at. The
same random numbers are drawn each time, in eval mode, where normalisation by batch is off.
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
    """The arguments with one sample in the place of another."""

    row: int
    args: Any
    kwargs: Any


def check_dependence(subject: Subject) -> Verdict:
    call = subject.call()
    if call is None:
        return unchecked(
            "the loss does not call the model itself, so that its inputs and outputs are not known"
        )
    if not any(True for _ in tensors_in((call.args, call.kwargs))):
        return unchecked("the model is given no tensors")
    model = subject.fresh().model.eval()
    if not real_tensors(call.output):
        return unchecked("the model gives no floating tensors")
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
    """Move all inputs; nothing may stay as it is. At first with the weights as they are, then with moved ones."""
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
        "the outputs are the same for other inputs",
        why="All inputs were exchanged for others and no output changed, also with moved weights.",
        fix="Look for an input that is overwritten, multiplied by zero or never used, and for units that are all dead.",
        place=place_of_class(type(subject.given.model)),
    )


def _same(some: Any, others: Any) -> bool:
    pairs = zip(tensors_in(some), tensors_in(others), strict=True)
    return all(one is other or torch.equal(one, other) for (_, one), (_, other) in pairs)


def _moved(leaf: Any) -> Any:
    """Other valid values of the same kind: the tensor's own, in another order, real ones moved as well."""
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
            "samples apart: not checked, as the batch has no axis of several samples that can be told"
        )
        return None
    if any(isinstance(each, BatchNorm) and each.running_mean is None for each in _modules(subject)):
        notes.append(
            "samples apart: not checked, as a BatchNorm without running statistics mixes them by design"
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
                "samples apart: not checked, as the model refuses a batch with a sample twice"
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
        said.append("each sample's on its own")
    else:
        notes.append("samples apart: not checked, as no output has an axis of samples")
    return None


def _modules(subject: Subject) -> list[nn.Module]:
    return list(subject.given.model.modules())


def _counts_samples_twice(tensor: torch.Tensor, layout: Layout) -> bool:
    """A table of pairs of samples, as contrastive models give it."""
    return list(tensor.shape[:2]) == [layout.size] * 2


def _probes(layout: Layout, args: Any, kwargs: Any) -> list[Probe]:
    """The last sample exchanged, and the first: what runs along the batch shows at one end only."""
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
        why = f"{named} runs along the axis of samples: without batch_first=True the first axis is time, and of two axes the first is time."
        fix = "Build it with batch_first=True, or give it (time, batch, features); for a single step unsqueeze(1)."
    else:
        why = f"Samples are mixed first in {named}: a softmax, mean or attention over axis 0, or a reshape that moves samples."
        fix = "Reduce and normalise over the axes after the first. For one graph or one set give a batch axis of one."
    return failed(
        f"with sample {probe.row} exchanged the outputs of others change by {apart:.1e} of their size",
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
