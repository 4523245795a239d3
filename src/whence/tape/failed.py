"""The call that raised: the last, unfinished entry of the tape, with its operands at hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from types import FrameType
from typing import Any

import torch
from torch import nn

from whence.source.handlers import Fate
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.batches import LoaderInfo, Lost
from whence.tape.beats import Beats
from whence.tape.builds import BuildBook
from whence.tape.scene import Scene
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value, flatten


class Stage(Enum):
    """The stage of making a batch that a loader has reached."""

    BEGINNING = "in worker_init_fn, before fetching a sample"
    OPENING = "while opening the dataset"
    MAKING = "while making a sample"
    COLLATING = "while collating samples"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that a worker process sent back as text."""

    kind: str
    text: str
    stage: Stage
    filename: str
    """The innermost line of the program that it passed through; empty if there is none."""
    line: int


@dataclass(eq=False, slots=True)
class Fetching:
    """A failed fetch of a batch, repeated: how far it got, and the functions behind each sample."""

    info: LoaderInfo
    indices: list[Any]
    """Indices of the samples; for an iterable dataset, their positions in the stream."""
    worker: int | None = None
    """The worker process that failed, if any."""
    stage: Stage = Stage.BEGINNING
    """The stage at which it stopped."""
    raised: Raised | None = None
    redrawn: bool = False
    """Whether it was repeated with different random numbers."""
    samples: list[Any] = field(default_factory=list)
    returns: list[list[tuple[FrameType, Any]]] = field(default_factory=list)
    callers: dict[FrameType, tuple[FrameType, int]] = field(default_factory=dict)
    """The user's function that called each of these, and the line."""
    courses: list[Any] = field(default_factory=list)
    """For each sample, the lines that made it."""
    lost: list[Lost] = field(default_factory=list)
    ending: Any = None
    """The result of fetching a lost worker's samples again."""

    @property
    def failed_index(self) -> Any:
        """The dataset index whose sample raised.

        None if no sample was requested yet, or if all samples were made and the collation failed.
        """
        made = len(self.samples)
        return (
            self.indices[made] if self.stage is Stage.MAKING and made < len(self.indices) else None
        )


@dataclass(eq=False, slots=True, kw_only=True)
class FailedCall(Scene):
    """Passed to the rules while the exception propagates."""

    call: Call
    func: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    exception: BaseException
    fate: Fate
    builds: BuildBook = field(default_factory=BuildBook)
    beats: Beats = field(default_factory=Beats)
    fetching: Fetching | None = None
    surfaced: Site | None = None
    """Where it surfaced, if that is not the site of the call."""
    place: Spot | None = None
    """The place to report if no line of the program is running."""

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def site(self) -> Site | None:
        return self.call.site

    @property
    def worked_before(self) -> bool:
        return self.tape.earlier_at(self.call) is not None

    @property
    def scope(self) -> Scope | None:
        return self.call.module if isinstance(self.call.module, Scope) else None

    @property
    def layer(self) -> nn.Module | None:
        """Return the PyTorch layer that made the call, if any."""
        module = (
            self.func
            if isinstance(self.func, nn.Module)
            else self.scope.module
            if self.scope is not None
            else None
        )
        return (
            module
            if module is not None and type(module).__module__.startswith("torch.nn")
            else None
        )

    def argument(self, position: int, name: str) -> Any:
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name)

    def tensors(self) -> Iterator[torch.Tensor]:
        for thing in flatten((self.args, self.kwargs)):
            if isinstance(thing, torch.Tensor):
                yield thing

    def value(self, tensor: torch.Tensor) -> Value:
        return self.tape.value_of(tensor)
