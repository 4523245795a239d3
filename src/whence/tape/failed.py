"""The call that raised: the last, unfinished entry of the tape, with its operands still in hand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn

from whence.source.handlers import Fate
from whence.source.sites import Site
from whence.tape.batches import LoaderInfo, Lost
from whence.tape.beats import Beats
from whence.tape.builds import BuildBook
from whence.tape.scene import Scene
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value, flatten


@dataclass(eq=False, slots=True)
class Fetching:
    """The fetch of a batch that failed, made again: how far it came, and the functions that made each sample."""

    info: LoaderInfo
    indices: list[Any]
    samples: list[Any] = field(default_factory=list)
    returns: list[list[tuple[FrameType, Any]]] = field(default_factory=list)
    callers: dict[FrameType, tuple[FrameType, int]] = field(default_factory=dict)
    """Which of the user's functions called those, and in which line."""
    lost: list[Lost] = field(default_factory=list)
    ending: Any = None
    """What came of fetching a lost worker's samples again."""

    @property
    def failed_index(self) -> Any:
        """The dataset index whose sample raised; None if all samples came and the collating failed."""
        return self.indices[len(self.samples)] if len(self.samples) < len(self.indices) else None


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

    @property
    def name(self) -> str:
        return self.call.name

    @property
    def site(self) -> Site | None:
        return self.call.site

    @property
    def scope(self) -> Scope | None:
        return self.call.module if isinstance(self.call.module, Scope) else None

    @property
    def layer(self) -> nn.Module | None:
        """The torch layer that made the call, if one did."""
        module = (
            self.func if isinstance(self.func, nn.Module) else self.scope.module if self.scope is not None else None
        )
        return module if module is not None and type(module).__module__.startswith("torch.nn") else None

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
