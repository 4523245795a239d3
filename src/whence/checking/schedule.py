"""Compare the horizon of a learning rate schedule with the planned steps.

Steps are calls of `optimizer.step()`. A schedule that counts epochs is recognised if the sizes of
dataset and batch are known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from whence.checking.subject import Given, Subject
from whence.checking.verdict import Verdict, failed, passed, unchecked, warning

MUCH_LONGER = 1.5


@dataclass(frozen=True, slots=True)
class Horizon:
    """The number of steps of a schedule. `after` says what happens then."""

    steps: int
    name: str
    after: str
    raises: bool = False
    must_end: bool = True
    """False if the schedule may cover a part of the training, like warm-up."""


def check_schedule(subject: Subject) -> Verdict:
    given = subject.given
    if given.scheduler is None or given.planned_steps is None:
        missing = "scheduler" if given.scheduler is None else "number of planned steps"
        return unchecked(f"no {missing} given")
    kind = type(given.scheduler).__name__
    horizon = horizon_of(given.scheduler)
    if horizon is None:
        return unchecked(f"the horizon of {kind} is unknown")
    planned, unit = _planned(given, horizon)
    measured = f"{kind}: {horizon.name}={horizon.steps}, {planned} {unit} planned"
    if horizon.must_end and horizon.steps < planned:
        verdict = failed if horizon.raises else warning
        return verdict(
            measured,
            why=f"After {horizon.steps} {unit} {horizon.after}.",
            fix=(
                f"Set {horizon.name}={planned}, or step the scheduler once per epoch if it "
                "counts epochs."
            ),
        )
    if horizon.steps > MUCH_LONGER * planned:
        return warning(
            measured,
            why=(
                f"Training ends before the schedule does: only {planned / horizon.steps:.0%} of "
                "it is used."
            ),
            fix=f"Set {horizon.name}={planned}; if it counts batches, step it after each batch.",
        )
    return passed(measured)


def _planned(given: Given, horizon: Horizon) -> tuple[int, str]:
    """Return the planned number, in the unit that the schedule counts."""
    steps = given.planned_steps or 0
    if given.dataset_size and given.batch_size:
        epoch = max(math.ceil(given.dataset_size / given.batch_size), 1)
        epochs = math.ceil(steps / epoch)
        if epochs <= horizon.steps <= MUCH_LONGER * epochs:
            return epochs, "epochs"
    return steps, "steps"


def horizon_of(scheduler: Any) -> Horizon | None:
    """Read the horizon by class name, so that lookalikes from other libraries work too."""
    kind = type(scheduler).__name__
    if kind == "SequentialLR":
        return _of_sequence(scheduler)
    if kind == "OneCycleLR":
        return Horizon(
            int(scheduler.total_steps), "total_steps", "the scheduler raises", raises=True
        )
    if kind == "CosineAnnealingLR":
        return Horizon(int(scheduler.T_max), "T_max", "the learning rate rises again")
    if kind == "PolynomialLR":
        return Horizon(int(scheduler.total_iters), "total_iters", "the learning rate is zero")
    if kind in ("LinearLR", "ConstantLR"):
        return Horizon(
            int(scheduler.total_iters),
            "total_iters",
            "the learning rate stays constant",
            must_end=False,
        )
    if kind == "StepLR":
        return Horizon(
            int(scheduler.step_size), "step_size", "the learning rate decays", must_end=False
        )
    if kind == "MultiStepLR":
        milestones = [int(each) for each in scheduler.milestones]
        return (
            Horizon(min(milestones), "milestones[0]", "the learning rate decays", must_end=False)
            if milestones
            else None
        )
    return None


def _of_sequence(scheduler: Any) -> Horizon | None:
    """Add the last milestone: that is where the last schedule starts."""
    parts, milestones = getattr(scheduler, "_schedulers", ()), getattr(scheduler, "_milestones", ())
    last = horizon_of(parts[-1]) if parts else None
    if last is None or not milestones:
        return None
    begins = int(milestones[-1])
    return Horizon(
        begins + last.steps, f"{begins} + {last.name}", last.after, last.raises, last.must_end
    )
