"""The screen of a running program: findings as they are made, the summary at the end."""

from __future__ import annotations

import contextlib
import functools
import random
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType
from typing import Protocol

from whence.finding import Finding, Report, Severity
from whence.report.escapes import escaped_line
from whence.report.note import render_note
from whence.report.stderr import RealStderr
from whence.source.interrupts import is_interrupt

MOST_IN_FULL = 10


class Stream(Protocol):
    def write(self, text: str, /) -> int: ...
    def flush(self) -> None: ...
    def isatty(self) -> bool: ...


def shown_folder(folder: Path) -> str:
    """Name a run folder for the user: relative in its usual place, absolute elsewhere."""
    return f".whence/{folder.name}" if folder.parent.name == ".whence" else str(folder)


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """Restore the random state: rich draws style ids from the `random` module the program uses."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


class LiveReport:
    """Print findings to stderr.

    A finding is held until the program continues or ends, so that it follows the program's
    traceback. The renderer is imported only when needed: rich takes 5 MB, which a healthy program
    should not carry.
    """

    def __init__(self, *, quiet: bool, folder: Path | None, stream: Stream | None = None) -> None:
        self.quiet = quiet
        self.folder = folder
        self.stream = stream if stream is not None else RealStderr()
        # Skip the first folder, which is the program's own.
        self._rich = PathFinder.find_spec("rich", sys.path[1:])
        self._held: list[Finding] = []
        self._printed = 0

    def hold(self, finding: Finding) -> None:
        if not self.quiet or finding.severity is Severity.ERROR:
            self._held.append(finding)

    def release(self) -> None:
        held, self._held = self._held, []
        if not held:
            return
        try:
            with _same_random_numbers():
                for finding in held:
                    self._print(finding)
        except Exception as error:
            # The program may have patched what printing needs. The message is lost, but the record
            # has it.
            if is_interrupt(error):
                raise

    def _print(self, finding: Finding) -> None:
        terminal = self._terminal
        if terminal is None:
            self.stream.write(render_note(finding) + "\n")
            return
        console = terminal.console(file=self.stream)
        if finding.severity is Severity.INFO or self._printed >= MOST_IN_FULL:
            console.print(terminal.render_line(finding))
            return
        self._printed += 1
        console.print()
        console.print(terminal.render_finding(finding), crop=False)
        console.print()

    def close(self, report: Report) -> None:
        """Print the last findings and the summary, whose line ends the output."""
        self.release()
        if not self.quiet and self._terminal is not None:
            with _same_random_numbers():
                self._print_summary(self._terminal, report)

    def end(self) -> None:
        """Stop printing."""
        if isinstance(self.stream, RealStderr):
            self.stream.close()

    def _print_summary(self, terminal: ModuleType, report: Report) -> None:
        console = terminal.console(file=self.stream)
        shown = shown_folder(self.folder) if self.folder is not None else None
        if self.folder is not None and (self.folder / "repro.py").exists():
            console.print(f"  repro: python {shown}/repro.py", style="dim", soft_wrap=True)
        for line in terminal.render_summary(report, shown):
            console.print(line, soft_wrap=True)

    def complain(self, what: str) -> None:
        with contextlib.suppress(Exception):
            self.stream.write(f"whence: {escaped_line(what)}\n")

    @functools.cached_property
    def _terminal(self) -> ModuleType | None:
        """Import the renderer; None if the program has its own module called rich.

        The program's folder is on the path by now and may have a file of that name, so rich is
        loaded from where it was found before.
        """
        try:
            if (
                self._rich is not None
                and self._rich.loader is not None
                and "rich" not in sys.modules
            ):
                sys.modules["rich"] = module = module_from_spec(self._rich)
                self._rich.loader.exec_module(module)
            return import_module("whence.report.terminal")
        except ImportError:
            return None
