"""The screen of a running program: findings as they are made, the summary at its end."""

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

from whence.finding import Finding, Report, Severity
from whence.report.note import render_note

MOST_IN_FULL = 10


@contextlib.contextmanager
def _same_random_numbers() -> Iterator[None]:
    """rich draws numbers for its styles, from the stream that a program shuffles and samples with."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


class LiveReport:
    """Prints to stderr. A finding is held until the program gets on or ends, so that it stands below the program's traceback.

    How it looks on a terminal is loaded when there is something to say: rich takes 5 MB, which a healthy program need not carry.
    """

    def __init__(self, *, quiet: bool, folder: Path | None) -> None:
        self.quiet = quiet
        self.folder = folder
        # The first folder is the program's own.
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
        with contextlib.suppress(OSError, ValueError), _same_random_numbers():
            # The program may have closed its stderr.
            for finding in held:
                self._print(finding)

    def _print(self, finding: Finding) -> None:
        terminal = self._terminal
        if terminal is None:
            print(render_note(finding), file=sys.stderr)
            return
        if finding.severity is Severity.INFO or self._printed >= MOST_IN_FULL:
            terminal.console().print(terminal.render_line(finding))
            return
        self._printed += 1
        console = terminal.console()
        console.print()
        console.print(terminal.render_finding(finding), crop=False)
        console.print()

    def close(self, report: Report) -> None:
        self.release()
        if self.quiet or self._terminal is None:
            return
        console = self._terminal.console()
        for line in self._terminal.render_summary(report, self.folder.name if self.folder else None):
            console.print(line, soft_wrap=True)
        if self.folder is not None and (self.folder / "repro.py").exists():
            console.print(f"  repro: python .whence/{self.folder.name}/repro.py", style="dim", soft_wrap=True)

    def complain(self, what: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            print(f"whence: {what}", file=sys.stderr)

    @functools.cached_property
    def _terminal(self) -> ModuleType | None:
        """How findings are drawn; None where the program has something else that is called rich.

        By now the program's own folder is on the path, and may have a file of that name: rich is where it was found before.
        """
        try:
            if self._rich is not None and self._rich.loader is not None and "rich" not in sys.modules:
                sys.modules["rich"] = module = module_from_spec(self._rich)
                self._rich.loader.exec_module(module)
            return import_module("whence.report.terminal")
        except ImportError:
            return None
