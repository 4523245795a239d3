"""Show a recorded run again. Without a name: the newest one below .whence.

example: whence report
         whence report .whence/20260101-120000-train --json
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from whence.config import UsageError
from whence.record import RUNS, document_of, read_document
from whence.report.live import MOST_IN_FULL
from whence.report.terminal import console, render_finding, render_line, render_summary


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="whence report", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", nargs="?", help="a run's folder, or a findings.json")
    parser.add_argument("--json", action="store_true", help="print the document instead")
    options = parser.parse_args(arguments)
    path = find_run(options.run)
    report = read_document(path)
    if options.json:
        print(json.dumps(document_of(report), indent=1))
        return 0
    screen = console(stderr=False)
    for number, finding in enumerate(report.findings):
        screen.print(render_finding(finding) if number < MOST_IN_FULL else render_line(finding), crop=False)
        screen.print()
    for line in render_summary(report, str(path.parent)):
        screen.print(line)
    sys.stdout.flush()
    return 0


def find_run(given: str | None) -> Path:
    if given is None:
        runs = sorted(RUNS.glob("*/findings.json"), key=lambda each: each.stat().st_mtime)
        if not runs:
            raise UsageError("no recorded run in .whence below this folder; make one with: whence run train.py")
        return runs[-1]
    path = Path(given)
    path = path / "findings.json" if path.is_dir() else path
    if not path.is_file():
        raise UsageError(f"no recorded run at {given}: expected a folder of .whence, or a findings.json")
    return path
