"""A tripwire went: something that is not finite has reached the loss, a gradient, or the program's own check."""

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
    """What was not finite when it was noticed."""

    LOSS = auto()
    GRADIENT = auto()
    OPERAND = auto()
    INPUT = auto()
    UPDATE = auto()
    STATE = auto()
    RATE = auto()


@dataclass(frozen=True, slots=True)
class Born:
    """Where it began: a call, or a leaf that had it from outside. `path` leads from there to where it was noticed."""

    trouble: str
    call: Call | None = None
    leaf: Value | None = None
    output: Value | None = None
    path: tuple[Call, ...] = ()
    mask: Value | None = None
    """An Inf that was put there on purpose, and which the call made into a NaN."""


@dataclass(frozen=True, slots=True)
class GradientBirth:
    node: str
    call: Call | None
    """The call of the forward pass whose derivative it is."""
    trouble: str
    index: tuple[int, ...]
    gradient: torch.Tensor
    """What the node gave back."""
    incoming: tuple[torch.Tensor | None, ...]
    """What it was given."""
    weight: Value | None
    """A weight that it reaches."""


@dataclass(frozen=True, slots=True)
class BadUpdate:
    """An optimizer's step that makes weights not finite from finite gradients."""

    optimizer: str
    weights: tuple[str, ...]
    dtype: torch.dtype
    eps: float | None
    in_float32: bool
    """Whether the same step in float32 is finite."""
    remade: Any = None
    """The call of somebody's own optimizer that did it, as it was found by making the step again."""


@dataclass(frozen=True, slots=True)
class BadState:
    """Numbers that outlive the step and are not finite."""

    names: tuple[str, ...]
    owner: str


@dataclass(frozen=True, slots=True)
class RateTrial:
    """One update, tried at other rates on the same batch."""

    rate: float | None
    """None where the program makes its updates itself."""
    before: float
    after: float
    factor: float
    smaller: float
    """The loss after the same update times `factor`."""


@dataclass(frozen=True, slots=True)
class ScaleFall:
    """A loss scale that was halved step after step."""

    before: float
    now: float
    steps: int


class Consequence(Enum):
    APPLIED = auto()
    """An optimizer is about to use it."""
    REPORTED = auto()
    """Only the number is wrong: the gradients that an optimizer uses are finite."""
    SKIPPED = auto()
    """The program went on without using it."""
    ENDED = auto()
    """The program stopped there, by its own check or by an exception."""


@dataclass(eq=False, slots=True, kw_only=True)
class Trip(Scene):
    """Handed to the rules of NaN and Inf while the step's leaves are still there."""

    notice: Notice
    consequence: Consequence
    step: int
    stack: tuple[Site, ...]
    """Where it was noticed."""
    now: Pass
    observed: torch.Tensor | None
    """The loss, or the operand, that was not finite; the loss of the step where a gradient was not."""
    exception: BaseException | None = None
    target: Value | None = None
    """What stands for it in the plan."""
    plan: Plan | None = None
    run: Run | None = None
    could_not: str = ""
    """Why the step could not be replayed."""
    manner: str = ""
    """How what was replayed differs from what the program ran."""
    born: Born | None = None
    gradient: GradientBirth | None = None
    weights: list[str] = field(default_factory=list)
    """Names of the weights whose gradients are not finite."""
    bad_gradients: list[torch.Tensor] = field(default_factory=list)
    backwards: int = 1
    """How many there were since the last step: gradients are added up over them."""
    by_last_backward: bool = False
    """They were finite before the last backward: no other has made them so."""
    given: Sequence[torch.Tensor] = ()
    """Where gradients are about to be computed from what is not finite: all that they are computed from."""
    in_update: bool = False
    """The birth is in what the program has made of gradients, and weights are not finite because of it."""
    unseen: bool = False
    """Hooks update the weights within backward: gradients of steps that were not recorded were gone before they could be looked at."""
    optimizer: Any = None
    built: tuple[Site, ...] = ()
    """Where the optimizer was built."""
    schedule: Any = None
    """The story of the scheduler that steers it, if there is one."""
    live: Any = None
    """What was read from autograd's own graph before backward let go of it."""
    prepared: Sequence[tuple[Value, Plan]] = ()
    """How the step could be run again, made ready when it was noticed: what its variables held may be gone by now."""
    losses: Sequence[float] = ()
    """Those of the last steps, this one's included."""
    evidence: BadUpdate | BadState | RateTrial | ScaleFall | None = None

    @property
    def certified(self) -> bool:
        """The replay gave the loss that was observed, bit for bit."""
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
        """For a replay from another step's recording: the batch of this step that stands in the recorded one's place."""
        if self.plan is None or self.plan.own:
            return recorded
        return next(
            (batch for batch, _ in reversed(self.now.deliveries) if batch.info is recorded.info),
            recorded,
        )

    def again(self, **changes: Any) -> Run:
        """Run the step again with something changed."""
        assert self.plan is not None
        return replay(self.plan, **changes)

    def outcome(self, run: Run) -> torch.Tensor | None:
        """What a run gives for the value that was not finite."""
        return (
            run.contents.get(self.target)
            if self.target is not None and run.raised is None
            else None
        )
