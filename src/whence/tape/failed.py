"""The call that raised: the last, unfinished entry of the tape, with its operands still in hand."""

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
    """What a loader is at when it makes a batch."""

    BEGINNING = "before it fetched anything, in worker_init_fn"
    OPENING = "when it began to read the dataset"
    MAKING = "while it made a sample"
    COLLATING = "while it put samples together"


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception that came home from a worker process, as text."""

    kind: str
    text: str
    stage: Stage
    filename: str
    """The innermost line of the program's own that it came through; empty where there is none."""
    line: int


@dataclass(eq=False, slots=True)
class Fetching:
    """The fetch of a batch that failed, made again: how far it came, and the functions that made each sample."""

    info: LoaderInfo
    indices: list[Any]
    """Of the samples; of a stream, their numbers in it."""
    worker: int | None = None
    """The worker process that failed, if it was one."""
    stage: Stage = Stage.BEGINNING
    """What it was at when it came no further."""
    raised: Raised | None = None
    redrawn: bool = False
    """Whether it was made again with other random numbers than it had."""
    samples: list[Any] = field(default_factory=list)
    returns: list[list[tuple[FrameType, Any]]] = field(default_factory=list)
    callers: dict[FrameType, tuple[FrameType, int]] = field(default_factory=dict)
    """Which of the user's functions called those, and in which line."""
    courses: list[Any] = field(default_factory=list)
    """For each sample, the lines by which it was made."""
    lost: list[Lost] = field(default_factory=list)
    ending: Any = None
    """What came of fetching a lost worker's samples again."""

    @property
    def failed_index(self) -> Any:
        """The dataset index whose sample raised; None if none was asked for yet, or all came and the collating failed."""
        made = len(self.samples)
        return (
            self.indices[made] if self.stage is Stage.MAKING and made < len(self.indices) else None
        )


@dataclass(eq=False, slots=True, kw_only=True)
class FailedCall(Scene):
    """Handed to the rules while the exception is on its way."""

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
    """Where it surfaced, if not where the call stands."""
    place: Spot | None = None
    """Where it is told from if no line of the program is running."""

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
        """The torch layer that made the call, if one did."""
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
