"""The optimizer has every trainable weight exactly once, and no weight from elsewhere."""

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
        return unchecked("no optimizer given")
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
        notes.append(f"frozen weights in the optimizer, which skips them: {listed(held)}")
    if left_out:
        return _left_out(given, left_out, strange, notes)
    if twice:
        return failed(
            f"listed more than once in the optimizer: {listed(twice)}",
            why="A weight listed twice is updated twice in each step.",
            fix="Put each weight into one parameter group, once.",
            place=place_of_parameter(given.model, twice[0]),
            notes=notes,
        )
    rates = [float(group["lr"]) for group in groups if "lr" in group]
    verdict = _rates(given, groups, rates, notes)
    if verdict is not None:
        return verdict
    if strange:
        return warning(
            f"the optimizer has {counted(len(strange), 'weight')} that neither model nor loss has",
            why=(
                "They may belong to another model, or to a layer replaced after the optimizer "
                "was built."
            ),
            fix="Build the optimizer after the model is complete.",
            notes=notes,
        )
    said = " and ".join(f"{rate:g}" for rate in sorted(set(rates))) or "not set"
    return passed(f"{counted(len(ids), 'weight')}, each once, learning rate {said}", notes)


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
    measured = (
        f"the optimizer lacks {counted(len(left_out), 'trainable weight')}: {listed(left_out)}"
    )
    if strange:
        measured += f"; it has {len(strange)} that the model does not have"
        why = (
            "The optimizer holds old weights: layers were replaced, or the model was rebuilt, "
            "after the optimizer was created."
        )
        fix = "Build the optimizer after the last change to the model."
    else:
        why = "These weights receive gradients but are never updated."
        fix = "Pass them to the optimizer, or freeze them with requires_grad_(False)."
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
        f"the learning rate is {wrong[0]:g}",
        why="With this learning rate no step improves a weight.",
        fix="Choose a learning rate above zero.",
        notes=notes,
    )
