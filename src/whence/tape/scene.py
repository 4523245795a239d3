"""What every rule is handed: the program as it stands, and the books that are kept on it."""

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
    """Holds live objects: must not outlive the diagnosis."""

    frames: list[FrameType]
    """The user's frames that were running, innermost first."""
    tape: Tape
    modules: ModuleBook
    loaders: LoaderBook
    record: Callable[[], AbstractContextManager[None]]
    """Puts what torch is asked within it on the tape; for looking again, in a child process."""
    warned: Sequence[tuple[Site, ...]] = ()
    """Where numpy has warned about its own results, the first time at each line."""
    troubles: list[str] = field(default_factory=list)
    """Rules that failed themselves."""

    @property
    def worked_before(self) -> bool:
        """Whether what fails now has gone well at the same place: then what it is about was not so at first."""
        return False
