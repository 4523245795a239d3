"""Check model, batch and loss before training: eleven checks on copies.

The function takes no arguments and returns (model, batch, loss_fn), (model, batch, loss_fn,
optimizer), or a dict with these names and, optionally, dataset_size, batch_size, planned_steps,
scheduler and causal. The batch may be a data loader. Exit code: 0 if no check failed, 1 if one
failed, 2 for wrong usage or if the function raises.

example: whence check train:parts
         whence check experiments/train.py:parts --fail-on warning --json check.json
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.cli.outputs import Parser, json_path
from whence.cli.targets import UsersFault, called, thing_at
from whence.config import UsageError
from whence.report.escapes import escaped
from whence.report.terminal import console

if TYPE_CHECKING:
    from whence.checking.result import CheckReport

EXAMPLE = "whence check train:parts"
REQUIRED = ("model", "batch", "loss_fn")
OPTIONAL = ("optimizer", "dataset_size", "batch_size", "planned_steps", "scheduler", "causal")
LEVELS = ("error", "warning", "never")


def parser() -> argparse.ArgumentParser:
    made = Parser(prog="whence check", description=__doc__)
    made.add_argument(
        "target", metavar="module:function", help="function to call, or path/to/file.py:function"
    )
    made.add_argument(
        "--json", metavar="PATH", help="write the report to PATH as JSON; - is stdout"
    )
    made.add_argument("--quiet", action="store_true", help="print only failed checks")
    made.add_argument(
        "--fail-on",
        metavar="LEVEL",
        default="error",
        help="exit with 1 at this level or above: error, warning, never",
    )
    return made


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.fail_on not in LEVELS:
        raise UsageError(f"--fail-on must be one of {', '.join(LEVELS)}; got {options.fail_on!r}")
    path = json_path(options.json)
    to_stdout = path is not None and str(path) == "-"
    try:
        # Keep output of the user's code out of the JSON document.
        with contextlib.redirect_stdout(sys.stderr) if to_stdout else contextlib.nullcontext():
            given = _arguments_of(thing_at(options.target, EXAMPLE), options.target)
    except UsersFault as fault:
        fault.show("there is nothing to check")
        return 2
    from whence.checking.check import check

    try:
        report = check(**given)
    except TypeError as error:
        raise UsageError(f"{options.target}: {error}") from error
    _print(report, quiet=options.quiet, stderr=to_stdout)
    if path is not None:
        _write(report, path)
    return _exit_code(report, options.fail_on)


def _arguments_of(function: Any, target: str) -> dict[str, Any]:
    if not callable(function) or hasattr(function, "named_parameters"):
        raise UsageError(
            f"{target} is {_kind(function)}; expected a function without arguments, as in: "
            f"{EXAMPLE}"
        )
    return _named(called(function, target), target)


def _named(returned: Any, target: str) -> dict[str, Any]:
    expected = (
        "(model, batch, loss_fn), (model, batch, loss_fn, optimizer) or a dict with these names"
    )
    if isinstance(returned, tuple | list) and len(returned) in (3, 4):
        return dict(zip((*REQUIRED, "optimizer"), returned, strict=False))
    if not isinstance(returned, dict):
        raise UsageError(f"{target} must return {expected}; it returned {_kind(returned)}")
    missing = [name for name in REQUIRED if name not in returned]
    if missing:
        raise UsageError(
            f"{target} returned a dict without {', '.join(missing)}; expected {expected}"
        )
    unknown = [str(name) for name in returned if name not in REQUIRED + OPTIONAL]
    if unknown:
        raise UsageError(
            f"{target} returned the unknown name {', '.join(unknown)}; valid names are "
            f"{', '.join(REQUIRED + OPTIONAL)}"
        )
    return returned


def _kind(thing: Any) -> str:
    if isinstance(thing, tuple | list):
        return f"a {type(thing).__name__} of {len(thing)}"
    return "nothing" if thing is None else f"a {type(thing).__name__}"


def _print(report: CheckReport, *, quiet: bool, stderr: bool) -> None:
    from whence.checking.table import render, render_bad, without_blanks

    if quiet and report.ok:
        return
    table = render_bad(report) if quiet else render(report)
    screen = console(stderr=stderr)
    if screen.is_terminal:
        screen.print(table)
    else:
        print(
            escaped(without_blanks(table, screen.width)), file=sys.stderr if stderr else sys.stdout
        )


def _write(report: CheckReport, path: Path) -> None:
    text = json.dumps(report.to_json(), indent=1)
    if str(path) == "-":
        print(text, flush=True)
    else:
        path.write_text(text + "\n", encoding="utf-8")


def _exit_code(report: CheckReport, level: str) -> int:
    from whence.checking.result import Outcome

    bad = {"never": (), "error": (Outcome.FAILED,), "warning": (Outcome.FAILED, Outcome.WARNING)}[
        level
    ]
    return 1 if any(each.outcome in bad for each in report.checks) else 0
