"""Undo an update that raised the loss, using the state that the optimizer keeps of it."""

from __future__ import annotations

from typing import Any

import torch
from torch.optim import Adam, AdamW, Optimizer

from whence.watching.course import Course
from whence.watching.updates import RAISED

MOST_LOOKS = 3
UNDOABLE = (Adam, AdamW)
"""Their moments determine the last update. The inputs of SGD's last update are gone."""


class LooksBack:
    """Counts the checks of updates before a jump of the loss."""

    def __init__(self) -> None:
        self._made = 0

    def is_due(self, course: Course, optimizer: Optimizer) -> bool:
        start = course.start
        if (
            not course.jumped
            or start is None
            or self._made >= MOST_LOOKS
            or type(optimizer) not in UNDOABLE
        ):
            return False
        is_due = course.losses[-1] > RAISED * max(start, 1e-6)
        self._made += is_due
        return is_due


def before_last_update(optimizer: Optimizer) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """The weights, each with its value before the last update, up to rounding."""
    kept = [
        (weight, group, state)
        for group in optimizer.param_groups
        for weight in group["params"]
        if weight.is_floating_point()
        and {"step", "exp_avg", "exp_avg_sq"} <= (state := optimizer.state.get(weight, {})).keys()
    ]
    last = max((float(state["step"]) for _, _, state in kept), default=0.0)
    made = [(weight, group, state) for weight, group, state in kept if float(state["step"]) == last]
    # A newer AdamW is an Adam with a flag in its parameter groups.
    is_adamw = isinstance(optimizer, AdamW)
    return [
        (
            each,
            _without(
                each, group, state, is_decoupled=group.get("decoupled_weight_decay", is_adamw)
            ),
        )
        for each, group, state in made
    ]


def _without(
    weight: torch.Tensor, group: dict[str, Any], state: dict[str, Any], *, is_decoupled: bool
) -> torch.Tensor:
    rate, (mean, square), count = float(group["lr"]), group["betas"], float(state["step"])
    spread = (
        state.get("max_exp_avg_sq", state["exp_avg_sq"]).sqrt() / (1 - square**count) ** 0.5
        + group["eps"]
    )
    move = state["exp_avg"] / spread * (rate / (1 - mean**count))
    before: torch.Tensor = weight.detach() + move
    return before / (1 - rate * group["weight_decay"]) if is_decoupled else before
