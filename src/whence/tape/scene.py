"""The input of every rule: the program's current state, and the books kept on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType

from whence.source.sites import Site
from whence.tape.batches import LoaderBook
from whence.tape.scopes import ModuleBook
from whence.tape.tape import Tape


@dataclass(eq=False, slots=True, kw_only=True)
class Scene:
    """Live objects of the program; must not outlive the diagnosis."""

    frames: list[FrameType]
    """The user's frames that were running, innermost first."""
    tape: Tape
    modules: ModuleBook
    loaders: LoaderBook
    record: Callable[[], AbstractContextManager[None]]
    """A context that puts torch calls on the tape, for a repeated check in a child process."""
    warned: Sequence[tuple[Site, ...]] = ()
    """Where NumPy has warned about its own results, the first time at each line."""
    troubles: list[str] = field(default_factory=list)
    """Rules that failed themselves."""

    @property
    def worked_before(self) -> bool:
        """Return whether the failing call has succeeded at the same place before."""
        return False
