"""Compare the first loss with chance: ln K for K classes, ln 2 for binary, variance for squares."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from whence.checking.recording import recording
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, failed, passed, unchecked, warning
from whence.rules.nonfinite.telling import number_text
from whence.tape.tape import Call

# Usual initial weights give a loss within a few tenths of chance; uncentred targets cost a small
# factor.
FAR, FAR_BEYOND = 3.0, 1.0
FAR_SQUARES = 10.0


@dataclass(frozen=True, slots=True)
class Chance:
    value: float
    said: str
    limit: float


def check_loss_at_start(subject: Subject) -> Verdict:
    made = subject.fresh()
    with recording() as seen:
        loss = subject.run(made).loss
        value = seen.tape.known_value(loss)
    number = float(loss.detach())
    known = [
        (call, tensors) for call, tensors in seen.losses if value is not None and value.call is call
    ]
    if not known:
        return unchecked(f"{number_text(number)}; the chance level of this loss is unknown")
    call, tensors = known[-1]
    if call.name in ("cross_entropy", "nll_loss") and _classes(tensors) == 1:
        return failed(
            f"{number_text(number)}, over one class",
            why="Cross entropy over one class is always 0, and so is its gradient.",
            fix="Use BCEWithLogitsLoss for one output, or give the model one output per class.",
        )
    chance = _chance(call, tensors)
    if chance is None:
        return unchecked(f"{number_text(number)}; the chance level is unknown with these options")
    per_item = number / _items(call, tensors)
    measured = f"{number_text(per_item)}; chance level is {chance.said}"
    if per_item <= chance.limit:
        return passed(measured)
    return warning(
        measured,
        why=(
            "The first predictions are confidently wrong: outputs, inputs or targets are on a "
            "different scale than the initial weights expect."
        ),
        fix=(
            "Check the scale of inputs and targets (normalise them), the initial weights of the "
            "last layer, and whether the loss receives logits or probabilities."
        ),
    )


def _classes(tensors: list[torch.Tensor]) -> int:
    logits = tensors[0]
    return int(logits.shape[1 if logits.dim() > 1 else 0])


def _items(call: Call, tensors: list[torch.Tensor]) -> int:
    """Return the number of items that the loss sums over: 1 if it is their mean."""
    if _reduction(call) != "sum":
        return 1
    return max(tensors[1].numel(), 1)


def _reduction(call: Call) -> str:
    return str(call.kwargs.get("reduction", "mean"))


def _chance(call: Call, tensors: list[torch.Tensor]) -> Chance | None:
    if len(tensors) < 2 or _reduction(call) == "none":
        return None
    if call.name in ("cross_entropy", "nll_loss"):
        return _chance_of_classes(tensors)
    if call.name.startswith("binary_cross_entropy"):
        if len(tensors) > 2:
            return None
        return Chance(math.log(2), "ln 2 = 0.6931", FAR * math.log(2) + FAR_BEYOND)
    return _chance_of_squares(tensors[1])


def _chance_of_classes(tensors: list[torch.Tensor]) -> Chance | None:
    classes, targets = _classes(tensors), tensors[1]
    uniform = math.log(classes)
    said = f"ln {classes} = {number_text(uniform)}"
    if not targets.is_floating_point():
        valid = targets[(targets >= 0) & (targets < classes)]
        if not valid.numel():
            return None
        shares = torch.bincount(valid.reshape(-1)).double() / valid.numel()
        entropy = -float((shares * shares.clamp_min(1e-300).log()).sum())
        said += f", or {number_text(abs(entropy))} for the batch's class shares"
    return Chance(uniform, said, FAR * uniform + FAR_BEYOND)


def _chance_of_squares(targets: torch.Tensor) -> Chance | None:
    wide = (
        targets.double().reshape(targets.shape[0], -1)
        if targets.dim()
        else targets.double().reshape(1, 1)
    )
    if wide.shape[0] < 4:
        return None
    variance = float(wide.var(dim=0, unbiased=False).mean())
    if not variance > 1e-12 or not math.isfinite(variance):
        return None
    return Chance(
        variance, f"the variance of the targets, {number_text(variance)}", FAR_SQUARES * variance
    )
