"""The screen of a running program: findings as they are made, the summary at its end."""

from __future__ import annotations

import contextlib
from pathlib import Path

from whence.finding import Finding, Report, Severity
from whence.report.terminal import MOST_IN_FULL, console, render_finding, render_line, render_summary


class LiveReport:
    """Prints to stderr. A finding is held until the program gets on or ends, so that it stands below the program's traceback."""

    def __init__(self, *, quiet: bool, folder: Path | None) -> None:
        self.quiet = quiet
        self.folder = folder
        self.console = console()
        self._held: list[Finding] = []
        self._printed = 0

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
            for line in render_summary(report, self.folder.name if self.folder else None):
                self.console.print(line, soft_wrap=True)
            if self.folder is not None and (self.folder / "repro.py").exists():
                self.console.print(f"  repro: python .whence/{self.folder.name}/repro.py", style="dim", soft_wrap=True)

    def complain(self, what: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self.console.print(f"whence: {what}", markup=False)
