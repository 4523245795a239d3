"""Run a program and explain what breaks.

The program behaves as in a plain run: its arguments, random numbers, output, exceptions, signals
and exit code are unchanged. Findings go to stderr as they are made. Every run writes
.whence/<time>-<script>/findings.json and updates it while the program runs.

example: whence run train.py --epochs 3
         whence run --fail-on error --json findings.json -m mypackage.train
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from dataclasses import replace
from os import getpid
from pathlib import Path
from time import process_time
from types import CodeType
from typing import TYPE_CHECKING, Any

from whence.cli.outputs import Parser, json_path
from whence.config import Config, UsageError, read_config, rule_patterns, severity
from whence.finding import Outcome, described
from whence.record import Record, new_run_folder, write_document, write_through
from whence.report.live import LiveReport
from whence.report.note import render_note
from whence.sensors import program as programs
from whence.source import at_fork  # noqa: F401 - before there are many objects
from whence.watching.stopping import Stop

if TYPE_CHECKING:
    from whence.watching.session import Session

TAKES_VALUE = (
    "--select",
    "--ignore",
    "--fail-on",
    "--stop-on",
    "--steps",
    "--budget",
    "--hang-after",
    "--json",
)


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="whence run",
        usage="whence run [options] (script.py | -m module | -c code) [args]",
        description=__doc__,
    )
    made.add_argument(
        "--select", metavar="RULES", help="run only these rules or families (comma-separated)"
    )
    made.add_argument(
        "--ignore", metavar="RULES", help="skip these rules or families (comma-separated)"
    )
    made.add_argument(
        "--fail-on",
        metavar="LEVEL",
        help="exit with 1 on a finding at this level or above: info, warning, error, never",
    )
    made.add_argument(
        "--stop-on",
        metavar="LEVEL",
        help="stop the program at the first finding at this level or above",
    )
    made.add_argument(
        "--steps", metavar="N", help="stop watching after N steps; the program continues"
    )
    made.add_argument(
        "--budget",
        metavar="SHARE",
        help=(
            "share of the run's CPU time that recording, checks and their child processes may "
            "use, beyond about one second (default 0.03)"
        ),
    )
    made.add_argument(
        "--hang-after",
        metavar="SECONDS",
        help="report a hang after this many seconds without computation (default 60)",
    )
    made.add_argument(
        "--no-child",
        action="store_true",
        help="fork no child processes; the report lists the checks this disables",
    )
    made.add_argument(
        "--json",
        metavar="PATH",
        help="also write findings.json to PATH; stdout stays the program's",
    )
    made.add_argument("--no-values", action="store_true", help="omit tensor values from all output")
    made.add_argument("--quiet", action="store_true", help="print only findings at level error")
    return made


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split Whence's options from the program: the first word that is not an option starts it."""
    position = 0
    while position < len(arguments):
        word = arguments[position]
        if word == "--":
            return arguments[:position], arguments[position + 1 :]
        if word in ("-m", "-c") or not word.startswith("-") or word == "-":
            break
        position += 2 if word in TAKES_VALUE else 1
    return arguments[:position], arguments[position:]


def find_program(words: list[str]) -> programs.Program:
    if not words:
        raise UsageError(
            "nothing to run; expected a script, -m module or -c code, as in: whence run train.py"
        )
    if words[0] in ("-m", "-c") and len(words) < 2:
        raise UsageError(
            f"{words[0]} needs a {'module name' if words[0] == '-m' else 'piece of code'} after it"
        )
    try:
        if words[0] == "-m":
            return programs.module(words[1], words[2:])
        if words[0] == "-c":
            return programs.command(words[1], words[2:])
        return programs.script(words[0], words[1:])
    except programs.CannotRun as reason:
        raise UsageError(str(reason)) from None


def choose(options: argparse.Namespace) -> Config:
    """Merge pyproject.toml with the command line, which takes precedence."""
    config = read_config(Path.cwd())
    if options.select is not None:
        config = replace(config, select=_rules(options.select, "--select"))
    if options.ignore is not None:
        config = replace(config, ignore=_rules(options.ignore, "--ignore"))
    if options.fail_on is not None:
        config = replace(config, fail_on=severity(options.fail_on, "--fail-on"))
    if options.stop_on is not None:
        config = replace(config, stop_on=severity(options.stop_on, "--stop-on"))
    if options.budget is not None:
        try:
            share = float(options.budget)
        except ValueError:
            share = 0.0
        if not 0 < share <= 1:
            raise UsageError(
                "--budget must be a share of the run's time between 0 and 1, such as 0.03; got "
                f"{options.budget!r}"
            )
        config = replace(config, budget=share)
    if options.hang_after is not None:
        try:
            seconds = float(options.hang_after)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise UsageError(
                f"--hang-after must be a number of seconds, such as 60; got {options.hang_after!r}"
            )
        config = replace(config, hang_after=seconds)
    if options.steps is not None:
        if not options.steps.isdecimal() or int(options.steps) < 1:
            raise UsageError(
                f"--steps must be a number of steps, such as 50; got {options.steps!r}"
            )
        config = replace(config, steps=int(options.steps))
    if options.no_child:
        config = replace(config, no_child=True)
    return replace(config, no_values=True) if options.no_values else config


def _rules(given: str, where: str) -> tuple[str, ...]:
    return rule_patterns([each.strip() for each in given.split(",")], where)


def main(arguments: list[str]) -> Run:
    own, words = split(arguments)
    options = parser().parse_args(own)
    config = choose(options)
    program = find_program(words)
    if options.json == "-":
        raise UsageError(
            "--json - would mix with the program's output on stdout; pass a file, or a separate "
            "descriptor, as in: whence run --json /dev/fd/3 train.py 3>findings.json"
        )
    record = Record(command=tuple(words), copy=json_path(options.json), no_values=config.no_values)
    pipe = _pipe_behind(record)
    record.folder = new_run_folder(program.name)
    if record.folder is None:
        record.not_watched(
            "the run folder: neither the working directory nor the temporary directory is writable"
        )
    return Run(program, config, record, pipe, quiet=options.quiet)


def _pipe_behind(record: Record) -> Path | None:
    """Return the pipe or device given with --json, which receives the report once, at the end.

    A plain file is opened right away, so that a path that cannot be written is an error now.
    """
    if record.copy is None:
        return None
    if record.copy.exists() and not record.copy.is_file():
        pipe, record.copy = record.copy, None
        return pipe
    try:
        # Keep a symbolic link: replace the file it points to.
        record.copy = record.copy.resolve()
        write_document(record.report, record.copy)
    except OSError as error:
        raise UsageError(f"cannot write --json {record.copy}: {error.strerror}") from error
    return None


class Run:
    """One run of one program, from its first line to the summary.

    The program runs inside this context manager, so that none of its frames is below the program's.
    """

    def __init__(
        self,
        program: programs.Program,
        config: Config,
        record: Record,
        pipe: Path | None,
        *,
        quiet: bool,
    ) -> None:
        self.program = program
        self.config = config
        self.pipe = pipe
        self.owner = getpid()
        self.record = record
        self.screen = LiveReport(quiet=quiet, folder=record.folder)
        self.watch: Session | None = None
        self.finished = False
        self.began = 0.0
        """CPU seconds from the start of the process to the program's first line."""
        self.exit_code = 0
        """Exit code of a program that ended by itself or was stopped."""
        self._torch = programs.TorchImported(self._start_watching)

    def __enter__(self) -> None:
        self.record.save()
        self.began = process_time()
        self._torch.wait()

    def prepare(self) -> tuple[CodeType, dict[str, Any]]:
        """Return the program's code and the `__main__` namespace to run it in."""
        return programs.prepare(self.program)

    def __exit__(self, _kind: Any, exception: BaseException | None, _traceback: Any) -> bool:
        """Record how the program ended; True if Python must not handle the exception."""
        try:
            return self._ended_by(exception)
        finally:
            self._torch.forget()

    def _ended_by(self, exception: BaseException | None) -> bool:
        if exception is None:
            self.finish(Outcome(exit_code=0))
            self.exit_code = int(self._fails(0))
            return True
        if isinstance(exception, Stop):
            self.finish(Outcome(exit_code=1))
            self.exit_code = 1
            return True
        self._attempt(programs.clean, exception)
        if not isinstance(exception, SystemExit):
            self._die_of(exception)
            return False
        code = _exit_code(exception.code)
        self._attempt(self._explain, exception)
        self.finish(Outcome(exit_code=code))
        self.exit_code = 1
        return self._fails(code)

    def _start_watching(self) -> None:
        """Start the watch once torch is imported. A fault in Whence must not reach the program."""
        before, began = self.began, process_time()
        collects = gc.isenabled()
        # Modules just imported are not garbage, and torch has created many objects to scan.
        gc.disable()
        try:
            from whence.watching.session import Session

            self.watch = Session(self.config, self.record, self.screen)
            self.watch.budget.note_start(before + process_time() - began)
            self.watch.start()
        except Exception as error:
            self.record.not_watched(
                f"anything: the watch could not start ({type(error).__name__}: {error})"
            )
        finally:
            if collects:
                gc.enable()

    def _die_of(self, exception: BaseException) -> None:
        """Print the program's traceback as Python would, then the findings.

        Python does the rest with the exception, such as the exit code.
        """
        self._attempt(self._explain, exception)
        if self.watch is not None:
            self._attempt(self.watch.stop)
        sys.last_type, sys.last_value, sys.last_traceback = (
            type(exception),
            exception,
            exception.__traceback__,
        )
        try:
            sys.excepthook(type(exception), exception, exception.__traceback__)
        finally:
            sys.excepthook = lambda *_: None
            interrupted = isinstance(exception, KeyboardInterrupt)
            self.finish(
                Outcome(exit_code=130 if interrupted else 1, exception=described(exception))
            )

    def _explain(self, exception: BaseException) -> None:
        """Attach the findings as notes to the exception that ends the program."""
        if self.watch is None:
            return
        for finding in self.watch.program_failed(exception):
            note = render_note(finding)
            if note not in getattr(exception, "__notes__", []):
                exception.add_note(note)

    def finish(self, outcome: Outcome) -> None:
        """Write the report. The program is over: no error here may change how it ended."""
        if self.finished or getpid() != self.owner:
            return
        self.finished = True
        if self.watch is None or not self._attempt(self._close_watch, outcome):
            # Findings of the watch's last check are lost; the others are kept.
            steps, overhead = self.record.report.steps, self.record.report.overhead
            self._attempt(
                lambda: self.record.close(outcome=outcome, steps=steps, overhead=overhead)
            )
        if self.pipe is not None:
            self._attempt(write_through, self.record.report, self.pipe)
        self._attempt(self.screen.close, self.record.report)

    def _close_watch(self, outcome: Outcome) -> None:
        if self.watch is not None:
            self.watch.close(outcome)

    def _attempt(self, action: Callable[..., Any], *args: Any) -> bool:
        """Run an action for a program that has ended.

        An exception, Ctrl-C included, only loses that action.
        """
        try:
            action(*args)
            return True
        except BaseException as error:
            self.screen.complain(
                f"could not finish the report: {described(error)}; the record is at "
                f"{self.record.folder}"
            )
            return False

    def _fails(self, code: int) -> bool:
        return (
            code == 0
            and self.config.fail_on is not None
            and self.record.reaches(self.config.fail_on)
        )


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
