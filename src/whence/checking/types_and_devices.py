"""Types and devices of weights, buffers and batch match, and eps fits the weights' type."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn

from whence.checking.clones import is_lazy
from whence.checking.places import place_of_exception
from whence.checking.structure import real_tensors, tensors_in
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, failed, listed, passed, warning
from whence.rules.nonfinite.telling import number_text


def check_types(subject: Subject) -> Verdict:
    model = subject.given.model
    weights = [each for each in model.parameters() if not is_lazy(each)]
    held = [*weights, *(each for each in model.buffers() if not is_lazy(each))]
    batch = list(tensors_in(subject.given.batch))
    real = sorted({_name(each.dtype) for each in weights})
    devices = sorted({str(each.device) for each in held})
    measured = (
        f"weights {' and '.join(real) or 'none'} on {' and '.join(devices) or 'no device'}; "
        f"batch {_types(each for _, each in batch)}"
    )
    return (
        _small_epsilon(subject, weights)
        or _refused(subject, weights, devices, batch)
        or _promoted(subject, weights)
        or passed(measured, _notes(weights))
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _types(tensors: Iterable[torch.Tensor]) -> str:
    return (
        ", ".join(dict.fromkeys(f"{_name(each.dtype)} on {each.device}" for each in tensors))
        or "without tensors"
    )


def _notes(weights: list[nn.Parameter]) -> list[str]:
    kinds = {each.dtype for each in weights if each.is_floating_point()}
    return (
        ["weights of several types: " + ", ".join(sorted(map(_name, kinds)))]
        if len(kinds) > 1
        else []
    )


def _small_epsilon(subject: Subject, weights: list[nn.Parameter]) -> Verdict | None:
    """Check eps: Adam divides by a root plus eps, in the weights' own type."""
    half = {id(each) for each in weights if each.dtype is torch.float16}
    for group in getattr(subject.given.optimizer, "param_groups", ()):
        epsilon = group.get("eps")
        if not isinstance(epsilon, float) or not any(id(each) in half for each in group["params"]):
            continue
        if epsilon > 0 and float(torch.tensor(epsilon, dtype=torch.float16)) == 0.0:
            return failed(
                f"eps={number_text(epsilon)} is 0 in float16, the type of the weights",
                why=(
                    "The optimizer divides by the root of a running mean of squares plus eps; "
                    "where that mean is 0, the step is 0/0 = NaN."
                ),
                fix=(
                    "Keep the weights in float32 and use torch.autocast; eps=1e-4 is only a "
                    "workaround."
                ),
            )
    return None


def _refused(
    subject: Subject,
    weights: list[nn.Parameter],
    devices: list[str],
    batch: list[tuple[str, torch.Tensor]],
) -> Verdict | None:
    """Report mismatches if the pass fails; a loss function may move and cast the batch itself."""
    if subject.raised is None:
        return None
    place = place_of_exception(subject.raised)
    strangers = [path for path, each in batch if devices and str(each.device) not in devices]
    if strangers:
        return failed(
            f"batch{strangers[0]} is on {dict(batch)[strangers[0]].device}, the model on "
            f"{' and '.join(devices)}",
            why="All operands of an operation must be on one device.",
            fix="Move the batch: batch = batch.to(device), for each tensor in it.",
            place=place,
        )
    types = {each.dtype for each in weights if each.is_floating_point()}
    other = [
        path
        for path, each in _inputs(batch)
        if each.is_floating_point() and types and each.dtype not in types
    ]
    if other:
        found = dict(batch)[other[0]].dtype
        wanted = next(iter(types))
        return failed(
            f"batch{other[0]} is {_name(found)}, the weights are {_name(wanted)}",
            why="Layers do not cast their inputs, and numpy creates float64 by default.",
            fix=f"Cast the data where they are created, or the batch: .to(torch.{_name(wanted)}).",
            place=place,
        )
    whole = [
        path
        for path, each in _inputs(batch)
        if not each.is_floating_point() and not each.is_complex()
    ]
    if whole and len(whole) == len(_inputs(batch)) and not _takes_integers(subject.given.model):
        return failed(
            f"batch{whole[0]} is {_name(dict(batch)[whole[0]].dtype)}, but the model has no "
            "embedding",
            why="Layers with floating-point weights do not accept integers.",
            fix="Cast and scale the input: x.float() / 255 for images.",
            place=place,
        )
    return None


def _inputs(batch: list[tuple[str, torch.Tensor]]) -> list[tuple[str, torch.Tensor]]:
    """Return all tensors but the last, which is the targets; a single one is an input."""
    return batch[:-1] if len(batch) > 1 else batch


def _takes_integers(model: nn.Module) -> bool:
    return any(isinstance(each, nn.Embedding | nn.EmbeddingBag) for each in model.modules())


def _promoted(subject: Subject, weights: list[nn.Parameter]) -> Verdict | None:
    """Check for a wider input, which widens everything after it if no layer rejects it."""
    types = {each.dtype for each in weights if each.is_floating_point()}
    call = subject.call() if subject.raised is None else None
    if call is None or torch.float64 in types or not types:
        return None
    wide = [
        path for path, each in tensors_in((call.args, call.kwargs)) if each.dtype is torch.float64
    ]
    if not wide or not any(each.dtype is torch.float64 for each in real_tensors(call.output)):
        return None
    return warning(
        "a float64 input makes the outputs float64, but the weights are "
        f"{listed(sorted(map(_name, types)))}",
        why=(
            "Type promotion picks the wider type: the model computes in float64 from there on, "
            "slowly on a GPU."
        ),
        fix="Cast the input to the weights' type where it is created.",
    )
