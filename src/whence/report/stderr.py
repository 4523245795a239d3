"""The process's real stderr, whatever the program does to `sys.stderr` or descriptor 2.

Functions are bound at import time, so that a program that patches `os` or `time` changes nothing
here.
"""

from __future__ import annotations

import contextlib
import select
import signal
import sys
from os import close, dup, fstat, getpid, isatty, write
from typing import Any, TextIO

from whence.source.interrupts import is_interrupt

try:
    import fcntl
    import resource
except ImportError:  # Windows
    fcntl = resource = None  # type: ignore[assignment]

LOWEST_NUMBER = 200
"""A high descriptor number, so that the program's own descriptors keep their usual numbers."""
CHUNK = 4096
"""A pipe reported as ready takes this many bytes without blocking."""
PATIENCE_SECONDS = 1.0
"""How long to wait, once, for a reader that does not read."""


class RealStderr:
    """A duplicate of descriptor 2, as a text stream.

    A message that cannot be written is dropped; nothing is raised.
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        self._owner = getpid()
        self._number = _duplicate()
        self._file = _identity(self._number)
        self._patience = PATIENCE_SECONDS
        self._is_terminal = self._number is not None and isatty(self._number)

    def isatty(self) -> bool:
        return self._is_terminal

    def fileno(self) -> int:
        number = self._usable()
        if number is None:
            raise OSError("stderr is closed")
        return number

    def flush(self) -> None: ...

    def write(self, text: str) -> int:
        # A forked child is not watched and has nothing to report.
        if getpid() == self._owner:
            try:
                self._write(text.encode(self.encoding, "backslashreplace"))
            except (OSError, ValueError) as error:
                if is_interrupt(error):
                    raise
        return len(text)

    def close(self) -> None:
        number, self._number, self._file = self._usable(), None, None
        if number is not None and number != 2:
            with contextlib.suppress(OSError):
                close(number)

    def _write(self, data: bytes) -> None:
        number = self._usable()
        while data and number is not None:
            if not _is_ready(number, self._patience):
                self._patience = 0.0
                return
            with contextlib.suppress(BlockingIOError):
                data = data[_write_without_signal(number, data[:CHUNK]) :]

    def _usable(self) -> int | None:
        """Return our descriptor while it still refers to the same file.

        A program may close every descriptor and open others.
        """
        if self._file is None:
            return None
        return next((each for each in (self._number, 2) if _identity(each) == self._file), None)


def stderr_of_a_watch() -> RealStderr | TextIO:
    """Return the real stderr, or the shell's in IPython, where descriptor 2 is not the notebook."""
    shell = sys.modules.get("IPython")
    try:
        in_shell = shell is not None and shell.get_ipython() is not None
    except Exception:
        in_shell = False
    return sys.stderr if in_shell and sys.stderr is not None else RealStderr()


def _duplicate() -> int | None:
    with contextlib.suppress(OSError):
        if fcntl is None:
            return dup(2)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest = LOWEST_NUMBER if soft == resource.RLIM_INFINITY else min(LOWEST_NUMBER, soft - 1)
        return fcntl.fcntl(2, fcntl.F_DUPFD_CLOEXEC, lowest)
    return None


def _identity(number: int | None) -> tuple[int, int] | None:
    with contextlib.suppress(OSError):
        if number is not None:
            found = fstat(number)
            return found.st_dev, found.st_ino
    return None


def _is_ready(number: int, patience: float) -> bool:
    """Whether a write would not block: the program must never wait for the reader of our output."""
    if not hasattr(select, "poll"):
        return True
    asked = select.poll()
    asked.register(number, select.POLLOUT)
    found = asked.poll(patience * 1000)
    return bool(found) and bool(found[0][1] & select.POLLOUT)


def _write_without_signal(number: int, data: bytes) -> int:
    """Write without raising SIGPIPE, which would end a program that keeps its default action."""
    if not hasattr(signal, "SIGPIPE") or signal.getsignal(signal.SIGPIPE) is not signal.SIG_DFL:
        return write(number, data)
    pipe: Any = {signal.SIGPIPE}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, pipe)
    try:
        return write(number, data)
    except BrokenPipeError:
        if signal.SIGPIPE in signal.sigpending():
            signal.sigwait(pipe)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
