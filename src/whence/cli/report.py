"""Show a recorded run again. Default: the newest run in .whence.

example: whence report
         whence report .whence/20260101-120000-train --json
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from whence.cli.outputs import Parser
from whence.config import UsageError
from whence.record import RUNS, document_of, read_document
from whence.report.live import MOST_IN_FULL, shown_folder
from whence.report.terminal import console, render_finding, render_line, render_summary


def main(arguments: list[str]) -> int:
    parser = Parser(prog="whence report", description=__doc__)
    parser.add_argument("run", nargs="?", help="a run folder or a findings.json")
    parser.add_argument("--json", action="store_true", help="print the JSON document instead")
    options = parser.parse_args(arguments)
    path = find_run(options.run)
    report = read_document(path)
    if options.json:
        print(json.dumps(document_of(report), indent=1))
        return 0
    screen = console(stderr=False)
    try:
        # Render everything first: a record that cannot be rendered is rejected in one line.
        with screen.capture() as shown:
            for number, finding in enumerate(report.findings):
                screen.print(
                    render_finding(finding) if number < MOST_IN_FULL else render_line(finding),
                    crop=False,
                )
                screen.print()
            for line in render_summary(report, shown_folder(path.parent)):
                screen.print(line, soft_wrap=True)
    except (ValueError, OverflowError, RecursionError, MemoryError) as error:
        raise UsageError(f"{path} cannot be shown ({type(error).__name__}: {error})") from error
    data = shown.get().encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    print(data.decode(sys.stdout.encoding or "utf-8"), end="", flush=True)
    return 0


def find_run(given: str | None) -> Path:
    if given is None:
        runs = sorted(RUNS.glob("*/findings.json"), key=lambda each: each.stat().st_mtime)
        if not runs:
            raise UsageError(
                "no recorded run in .whence in this folder; record one with: whence run train.py"
            )
        return runs[-1]
    path = Path(given)
    try:
        path = path / "findings.json" if path.is_dir() else path
        is_file = path.is_file()
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        raise UsageError(
            f"no recorded run at {given}: expected a folder in .whence, or a findings.json"
        )
    return path
