"""The optimizer has every trainable weight exactly once, and nothing that the model does not have."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch import nn

from whence.checking.clones import unwrapped
from whence.checking.places import place_of_parameter
from whence.checking.subject import Given, Subject
from whence.checking.verdict import Verdict, counted, failed, listed, passed, unchecked, warning


def check_optimizer(subject: Subject) -> Verdict:
    given = subject.given
    optimizer = given.optimizer
    groups = getattr(optimizer, "param_groups", None)
    if optimizer is None:
        return unchecked("no optimizer was given")
    if not isinstance(groups, list):
        return unchecked(f"{type(optimizer).__name__} has no param_groups")
    names = _names(given)
    owned = [each for group in groups for each in group["params"]]
    ids = Counter(id(each) for each in owned)
    left_out = [name for key, name in names.items() if key not in ids and _trainable(given)[key]]
    strange = [each for each in owned if id(each) not in names]
    twice = [names[key] for key, count in ids.items() if count > 1 and key in names]
    frozen = [name for key, name in names.items() if not _trainable(given)[key]]
    notes = [f"frozen: {listed(frozen)}"] if frozen else []
    held = [names[key] for key in ids if key in names and not _trainable(given)[key]]
    if held:
        notes.append(f"frozen and in the optimizer, which passes them over: {listed(held)}")
    if left_out:
        return _left_out(given, left_out, strange, notes)
    if twice:
        return failed(
            f"more than once in the optimizer: {listed(twice)}",
            why="A weight that is there twice is updated twice in each step.",
            fix="Give each weight to one group, once.",
            place=place_of_parameter(given.model, twice[0]),
            notes=notes,
        )
    rates = [float(group["lr"]) for group in groups if "lr" in group]
    verdict = _rates(given, groups, rates, notes)
    if verdict is not None:
        return verdict
    if strange:
        return warning(
            f"{counted(len(strange), 'weight')} in the optimizer that neither model nor loss has",
            why="It may be another model's, or a layer's that was replaced after the optimizer was built.",
            fix="Build the optimizer after the model is complete.",
            notes=notes,
        )
    said = " and ".join(f"{rate:g}" for rate in sorted(set(rates))) or "without"
    return passed(f"{counted(len(ids), 'weight')}, each once, at a rate of {said}", notes)


def _names(given: Given) -> dict[int, str]:
    found = {id(each): name for name, each in unwrapped(given.model).named_parameters()}
    if isinstance(given.loss_fn, nn.Module):
        found = {
            id(each): f"loss.{name}" for name, each in given.loss_fn.named_parameters()
        } | found
    return found


def _trainable(given: Given) -> dict[int, bool]:
    found = {id(each): each.requires_grad for each in given.model.parameters()}
    if isinstance(given.loss_fn, nn.Module):
        found |= {id(each): each.requires_grad for each in given.loss_fn.parameters()}
    return found


def _left_out(given: Given, left_out: list[str], strange: list[Any], notes: list[str]) -> Verdict:
    measured = f"{counted(len(left_out), 'trainable weight')} that the optimizer does not have: {listed(left_out)}"
    if strange:
        measured += f"; it has {len(strange)} that the model does not have"
        why = "The optimizer holds weights of before: layers were replaced, or the model was built again, after it was made."
        fix = "Build the optimizer after the last change of the model."
    else:
        why = "They get gradients and never move."
        fix = "Give them to the optimizer, or freeze them with requires_grad_(False)."
    return failed(
        measured,
        why=why,
        fix=fix,
        place=place_of_parameter(unwrapped(given.model), left_out[0]),
        notes=notes,
    )


def _rates(given: Given, groups: list[Any], rates: list[float], notes: list[str]) -> Verdict | None:
    wrong = [rate for rate in rates if not rate > 0]
    warms_up = given.scheduler is not None or any(
        float(group.get("initial_lr") or 0) > 0 for group in groups
    )
    if not wrong or (warms_up and min(rates) == 0.0):
        return None
    return failed(
        f"a learning rate of {wrong[0]:g}",
        why="At that rate no step changes a weight for the better.",
        fix="Choose a rate above zero.",
        notes=notes,
    )
