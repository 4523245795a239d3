"""Every trainable weight receives a gradient.

Weights that are skipped once, by a random or zero initialisation, do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose
from time import perf_counter

import torch
from torch import nn

from whence.checking.jitter import jitter
from whence.checking.places import place_of_parameter
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, counted, failed, listed, passed, unchecked

MORE_PASSES = 12
SECONDS = 4.0
ROUNDING = 1e-6


def check_gradients(subject: Subject) -> Verdict:
    first = subject.fresh()
    names = {name for name, each in first.model.named_parameters() if each.requires_grad}
    frozen = [name for name, each in first.model.named_parameters() if not each.requires_grad]
    notes = [f"frozen: {listed(frozen)}"] if frozen else []
    if not names:
        return unchecked("no weight requires a gradient", notes)
    missing, zero, called = set(names), set(names), set[str]()
    began = perf_counter()
    late: list[str] = []
    for number in range(MORE_PASSES + 1):
        made = first if number == 0 else subject.fresh()
        if number:
            jitter(made.model, number)
        handles = list(_note_calls(made.model, called))
        subject.run(made, number).loss.backward()  # type: ignore[no-untyped-call]
        for handle in handles:
            handle.remove()
        gradients = {name: each.grad for name, each in made.model.named_parameters()}
        missing = {name for name in missing if gradients[name] is None}
        zero = {name for name in zero if not _is_something(gradients[name])}
        if number == 0:
            late = sorted(zero)
        if not zero or (number > 1 and perf_counter() - began > SECONDS):
            break
    began_zero = [name for name in late if name not in zero]
    if began_zero:
        notes.append(
            "zero in the first pass only, not with other random numbers or perturbed weights: "
            f"{listed(began_zero)}"
        )
    spared = sorted(
        name for name in missing if _is_one_of_several(subject.source.model, name, called)
    )
    if spared:
        notes.append(
            "list members that were not called in these passes, while others were: "
            f"{listed(spared)}"
        )
        zero -= set(spared)
    redundant = sorted(name for name in zero - missing if _cancels(subject, name))
    if redundant:
        notes.append(
            f"no effect on the loss, because a later operation cancels them: {listed(redundant)}"
        )
        zero -= set(redundant)
    if not zero:
        rest = len(names) - len(redundant) - len(spared)
        return passed(f"{counted(rest, 'trainable weight')}, each with a gradient", notes)
    return _verdict(subject, sorted(zero), missing, called, len(names), notes)


def _cancels(subject: Subject, name: str) -> bool:
    """Whether the loss does not depend on a bias: before a norm, or in a difference of two."""
    losses = []
    for amount in (0.0, 0.4):
        made = subject.fresh()
        weight = made.model.get_parameter(name)
        if weight.dim() > 1:
            return False
        with torch.no_grad():
            weight.add_(
                amount * torch.cos(torch.arange(weight.numel())).reshape(weight.shape).to(weight)
            )
        losses.append(float(subject.run(made).loss.detach()))
    # A loss that is a small difference of larger values carries their rounding error.
    return isclose(*losses, rel_tol=1e-5, abs_tol=ROUNDING)


def _note_calls(model: nn.Module, called: set[str]) -> Iterator[torch.utils.hooks.RemovableHandle]:
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            continue
        yield module.register_forward_pre_hook(lambda _module, _args, path=path: called.add(path))


def _is_something(gradient: torch.Tensor | None) -> bool:
    if gradient is None:
        return False
    if gradient.layout is not torch.strided:
        gradient = gradient.coalesce().values()
    return bool((gradient != 0).any())


def _verdict(
    subject: Subject,
    lost: list[str],
    missing: set[str],
    called: set[str],
    total: int,
    notes: list[str],
) -> Verdict:
    measured = (
        f"{len(lost)} of {counted(total, 'trainable weight')} without a gradient: {listed(lost)}"
    )
    owners = {name.rpartition(".")[0] for name in lost}
    place = place_of_parameter(subject.given.model, lost[0])
    if missing.issuperset(lost) and not any(owner in called for owner in owners if owner):
        why = "Forward never calls the modules that own these weights."
        fix = (
            "Call the modules in forward, or remove them; freeze them with "
            "requires_grad_(False) if they are unused on purpose."
        )
    elif missing.issuperset(lost):
        why = (
            "The weights are used, but the graph has no path from the loss to them: detach(), "
            "no_grad, .data, numpy, argmax or a new tensor breaks it."
        )
        fix = "Keep the operations after these weights in PyTorch and on the graph."
    else:
        why = (
            "The gradient is zero everywhere, even with perturbed weights: a step function, a "
            "dead or saturated unit, or a softmax over one element."
        )
        fix = (
            "Inspect the operations after these weights: round, sign, a ReLU that never fires, "
            "an axis of size one."
        )
    return failed(measured, why=why, fix=fix, place=place, notes=notes)


def _is_one_of_several(model: nn.Module, name: str, called: set[str]) -> bool:
    """Whether its module is an uncalled list member with called siblings, such as an expert."""
    parts = name.split(".")[:-1]
    for depth in range(len(parts), 0, -1):
        path, parent = ".".join(parts[:depth]), ".".join(parts[: depth - 1])
        if not isinstance(model.get_submodule(parent), nn.ModuleList | nn.ModuleDict):
            continue
        if path not in called and any(
            f"{parent}.{name}".lstrip(".") in called
            for name, _ in model.get_submodule(parent).named_children()
        ):
            return True
    return False
