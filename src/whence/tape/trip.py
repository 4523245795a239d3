"""A tripwire was triggered.

A non-finite value reached the loss, a gradient, or the program's own check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

import torch

from whence.source.sites import Site
from whence.tape.batches import Batch
from whence.tape.passes import Pass
from whence.tape.replay import Plan, Run, replay, same_bits
from whence.tape.scene import Scene
from whence.tape.tape import Call, Value


class Notice(Enum):
    """Where a non-finite value was noticed."""

    LOSS = auto()
    GRADIENT = auto()
    OPERAND = auto()
    INPUT = auto()
    UPDATE = auto()
    STATE = auto()
    RATE = auto()


@dataclass(frozen=True, slots=True)
class Born:
    """The origin: a call, or a leaf that was not finite.

    `path` leads from there to where it was noticed.
    """

    trouble: str
    call: Call | None = None
    leaf: Value | None = None
    output: Value | None = None
    path: tuple[Call, ...] = ()
    mask: Value | None = None
    """An Inf that was set deliberately, and that the call turned into NaN."""


@dataclass(frozen=True, slots=True)
class GradientBirth:
    node: str
    call: Call | None
    """The call of the forward pass whose derivative it is."""
    trouble: str
    index: tuple[int, ...]
    gradient: torch.Tensor
    """The node's output."""
    incoming: tuple[torch.Tensor | None, ...]
    """The node's inputs."""
    weight: Value | None
    """A weight that it reaches."""


@dataclass(frozen=True, slots=True)
class BadUpdate:
    """An optimizer step that makes weights non-finite from finite gradients."""

    optimizer: str
    weights: tuple[str, ...]
    dtype: torch.dtype
    eps: float | None
    in_float32: bool
    """Whether the same step in float32 is finite."""
    remade: Any = None
    """The call in a custom optimizer that did it, found by repeating the step."""


@dataclass(frozen=True, slots=True)
class BadState:
    """A state that outlives the step and is not finite."""

    names: tuple[str, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One update, tried at other learning rates on the same batch."""

    rate: float | None
    """None if the program makes its updates itself."""
    before: float
    after: float
    factor: float
    smaller: float
    """The loss after the same update times `factor`."""


@dataclass(frozen=True, slots=True)
class ScaleFall:
    """A loss scale that was halved in consecutive steps."""

    before: float
    now: float
    steps: int


class Consequence(Enum):
    APPLIED = auto()
    """An optimizer is about to use it."""
    REPORTED = auto()
    """Only the reported value is wrong: the gradients that an optimizer uses are finite."""
    SKIPPED = auto()
    """The program continued without using it."""
    ENDED = auto()
    """The program stopped there, by its own check or by an exception."""


@dataclass(eq=False, slots=True, kw_only=True)
class Trip(Scene):
    """Passed to the rules for NaN and Inf while the step's leaves still exist."""

    notice: Notice
    consequence: Consequence
    step: int
    stack: tuple[Site, ...]
    """Where it was noticed."""
    now: Pass
    observed: torch.Tensor | None
    """The loss or operand that was not finite; the loss of the step if a gradient was not."""
    exception: BaseException | None = None
    target: Value | None = None
    """The value that represents it in the plan."""
    plan: Plan | None = None
    run: Run | None = None
    could_not: str = ""
    """Why the step could not be replayed."""
    manner: str = ""
    """How the replay differs from what the program ran."""
    born: Born | None = None
    gradient: GradientBirth | None = None
    weights: list[str] = field(default_factory=list)
    """Names of the weights whose gradients are not finite."""
    bad_gradients: list[torch.Tensor] = field(default_factory=list)
    backwards: int = 1
    """Backwards since the last step, over which gradients accumulate."""
    by_last_backward: bool = False
    """The gradients were finite before the last backward, so no other backward caused this."""
    given: Sequence[torch.Tensor] = ()
    """If gradients are about to be computed from a non-finite value: all values that they are
    computed from."""
    in_update: bool = False
    """The origin is in the program's manual update, and weights are not finite because of it."""
    unseen: bool = False
    """Hooks update the weights during backward, so the gradients of unrecorded steps were gone
    before they could be checked."""
    optimizer: Any = None
    built: tuple[Site, ...] = ()
    """Where the optimizer was built."""
    schedule: Any = None
    """The history of its scheduler, if it has one."""
    live: Any = None
    """What was read from autograd's own graph before backward freed it."""
    prepared: Sequence[tuple[Value, Plan]] = ()
    """How to replay the step, prepared when it was noticed: its variables may change later."""
    losses: Sequence[float] = ()
    """The losses of the last steps, including this one."""
    evidence: BadUpdate | BadState | RateTrial | ScaleFall | None = None

    @property
    def certified(self) -> bool:
        """Return whether the replay reproduced the observed loss bit for bit."""
        if (
            self.run is None
            or self.observed is None
            or self.target is None
            or self.now.is_approximate
        ):
            return False
        tensor = self.run.contents.get(self.target)
        return tensor is not None and same_bits(tensor, self.observed)

    def batch_now(self, recorded: Batch) -> Batch:
        """Return the batch of this step that replaces the recorded one of another step."""
        if self.plan is None or self.plan.own:
            return recorded
        return next(
            (batch for batch, _ in reversed(self.now.deliveries) if batch.info is recorded.info),
            recorded,
        )

    def again(self, **changes: Any) -> Run:
        """Replay the step with a change."""
        assert self.plan is not None
        return replay(self.plan, **changes)

    def outcome(self, run: Run) -> torch.Tensor | None:
        """Return a run's value for the target that was not finite."""
        return (
            run.contents.get(self.target)
            if self.target is not None and run.raised is None
            else None
        )
