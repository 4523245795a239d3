"""The screen of a running program: findings as they are made, the summary at its end."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path
from typing import TYPE_CHECKING

from whence.finding import Finding, Report, Severity

if TYPE_CHECKING:
    from rich.console import Console

MOST_IN_FULL = 10


class LiveReport:
    """Prints to stderr. A finding is held until the program gets on or ends, so that it stands below the program's traceback.

    How it looks on a terminal is loaded when there is something to say: rich takes 5 MB, which a healthy program need not carry.
    """

    def __init__(self, *, quiet: bool, folder: Path | None) -> None:
        self.quiet = quiet
        self.folder = folder
        self._held: list[Finding] = []
        self._printed = 0

    @functools.cached_property
    def console(self) -> Console:
        from whence.report.terminal import console

        return console()

    def hold(self, finding: Finding) -> None:
        if not self.quiet or finding.severity is Severity.ERROR:
            self._held.append(finding)

    def release(self) -> None:
        held, self._held = self._held, []
        with contextlib.suppress(OSError, ValueError):
            # The program may have closed its stderr.
            for finding in held:
                self._print(finding)

    def _print(self, finding: Finding) -> None:
        from whence.report.terminal import render_finding, render_line

        if finding.severity is Severity.INFO or self._printed >= MOST_IN_FULL:
            self.console.print(render_line(finding))
            return
        self._printed += 1
        self.console.print()
        self.console.print(render_finding(finding), crop=False)
        self.console.print()

    def close(self, report: Report) -> None:
        self.release()
        if not self.quiet:
            from whence.report.terminal import render_summary

            for line in render_summary(report, self.folder.name if self.folder else None):
                self.console.print(line, soft_wrap=True)
            if self.folder is not None and (self.folder / "repro.py").exists():
                self.console.print(f"  repro: python .whence/{self.folder.name}/repro.py", style="dim", soft_wrap=True)

    def complain(self, what: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.console.print(f"whence: {what}", markup=False)
