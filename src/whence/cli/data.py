"""Survey data without training: print a summary table and the problems found.

The name refers to a DataLoader, a dataset, an array or a frame, or to a function or class that
returns one when called without arguments.

example: whence data train:loader
         whence data src/train.py:make_loader --batches 100 --json data.json
"""

from __future__ import annotations

import argparse
import contextlib
import inspect
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.cli.outputs import Parser, json_path
from whence.cli.targets import UsersFault, called, place_of, thing_at
from whence.config import UsageError, severity
from whence.finding import Span
from whence.record import document_of
from whence.report.escapes import escaped_line
from whence.report.terminal import console, render_finding, render_line
from whence.source.spots import Spot

if TYPE_CHECKING:
    from whence.survey import DataReport

MOST_ROWS = 40


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="whence data", description=__doc__)
    made.add_argument(
        "target", metavar="module:name", help="the data to survey, such as train:loader"
    )
    made.add_argument("--batches", metavar="N", help="read only the first N batches")
    made.add_argument(
        "--json", metavar="PATH", help="write the findings to PATH as JSON; - is stdout"
    )
    made.add_argument("--quiet", action="store_true", help="print only findings")
    made.add_argument(
        "--fail-on",
        metavar="LEVEL",
        default="error",
        help="exit with 1 at this level or above: info, warning, error, never",
    )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.batches is not None and (
        not options.batches.isdecimal() or int(options.batches) < 1
    ):
        raise UsageError(
            f"--batches must be a number of batches, such as 100; got {options.batches!r}"
        )
    level = severity(options.fail_on, "--fail-on")
    path = json_path(options.json)
    try:
        # Keep output of the user's code out of the JSON document.
        with (
            contextlib.redirect_stdout(sys.stderr)
            if options.json == "-"
            else contextlib.nullcontext()
        ):
            data = thing_at(options.target, "whence data train:loader")
            data = (
                called(data, options.target)
                if inspect.isfunction(data) or inspect.isclass(data)
                else data
            )
    except UsersFault as fault:
        fault.show("there are no data to survey")
        return 2
    from whence.survey import NoData, batches_in, look_through

    here = place_of(options.target) or Spot(options.target, Span(0, 0, 0, 0), "")
    screen = console()
    most = int(options.batches) if options.batches is not None else None
    try:
        if screen.is_terminal and not options.quiet:
            from rich.progress import Progress

            with Progress(console=screen, transient=True) as bar:
                task = bar.add_task("whence data", total=batches_in(data, most))
                report = look_through(
                    data, here, most, lambda number: bar.update(task, completed=number)
                )
        else:
            report = look_through(data, here, most, None)
    except NoData as error:
        raise UsageError(f"{options.target}: {error}") from None
    if path is not None:
        _write(report, path)
    if not options.quiet and options.json != "-":
        _show_table(report)
    for finding in report.findings:
        screen.print(
            render_finding(finding) if finding.severity.rank else render_line(finding), crop=False
        )
    if not options.quiet:
        print(escaped_line(str(report).splitlines()[0]), file=sys.stderr)
    worst = max((each.severity.rank for each in report.findings), default=-1)
    return 1 if report.stopped_by is not None or (level is not None and worst >= level.rank) else 0


def _show_table(report: DataReport) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    has_words = any(each.kinds is not None for each in report.rows)
    figures = ("low", "high", "mean", "spread", "missing", *(("kinds",) if has_words else ()))
    for name in ("leaf", "column", "type", "shape"):
        table.add_column(name)
    for name in figures:
        table.add_column(name, justify="right")
    for row in report.rows[:MOST_ROWS]:
        numbers = [
            f"{each:.4g}" if each is not None else ""
            for each in (row.low, row.high, row.mean, row.spread)
        ]
        rest = [
            f"{row.missing:.1%}" if row.missing else "",
            f"{row.kinds}" if row.kinds is not None else "",
        ]
        table.add_row(
            row.leaf, row.column, row.dtype, row.shape, *numbers, *rest[: len(figures) - 4]
        )
    screen = console(stderr=False)
    screen.print(table)
    if len(report.rows) > MOST_ROWS:
        screen.print(f"... and {len(report.rows) - MOST_ROWS} more columns")


def _write(report: DataReport, path: Path) -> None:
    from dataclasses import asdict

    from whence.finding import Report

    document: dict[str, Any] = document_of(
        Report(command=("whence data",), findings=report.findings, finished=True)
    )
    document["data"] = {
        "samples": report.samples,
        "batches": report.batches,
        "stopped_by": report.stopped_by,
        "columns": [asdict(each) for each in report.rows],
    }
    text = json.dumps(document, indent=1)
    if str(path) == "-":
        print(text)
    else:
        path.write_text(text + "\n", encoding="utf-8")
