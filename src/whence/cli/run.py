"""Run a program under the watch.

The program cannot tell the difference: its arguments, random numbers, output, exceptions, signals
and exit code are its own. Findings go to stderr as they are made; every run leaves
.whence/<time>-<script>/findings.json, which is kept up to date while the program runs.

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
        "--select", metavar="RULES", help="only these rules or families, separated by commas"
    )
    made.add_argument("--ignore", metavar="RULES", help="not these rules or families")
    made.add_argument(
        "--fail-on",
        metavar="LEVEL",
        help="exit with 1 if there is a finding of this level or above: info, warning, error, never",
    )
    made.add_argument(
        "--stop-on",
        metavar="LEVEL",
        help="end the program at the first finding of this level or above",
    )
    made.add_argument(
        "--steps", metavar="N", help="end the watch after N steps; the program goes on without it"
    )
    made.add_argument(
        "--budget",
        metavar="SHARE",
        help="share of the run's CPU time that recording, studies, audits and their"
        " child processes may take, beyond about a second (default 0.03)",
    )
    made.add_argument(
        "--hang-after",
        metavar="SECONDS",
        help="say so if nothing computes for so long (default 60)",
    )
    made.add_argument(
        "--no-child",
        action="store_true",
        help="fork no child processes; the report says what is lost",
    )
    made.add_argument(
        "--json", metavar="PATH", help="write findings.json there as well; stdout is the program's"
    )
    made.add_argument(
        "--no-values", action="store_true", help="leave tensor values out of all that is written"
    )
    made.add_argument(
        "--quiet", action="store_true", help="print nothing but findings of level error"
    )
    return made


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Whence's own options, and the program with its arguments: everything from the first word that
    is not an option."""
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
            f"{words[0]} needs a {'module name' if words[0] == '-m' else 'piece of code'} behind it"
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
    """The configuration of pyproject.toml, overruled by the command line."""
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
                f"--budget must be a share of the run's time between 0 and 1, such as 0.03; got {options.budget!r}"
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
            "--json - would mix with the program's own output on stdout; give a file, "
            "or a descriptor of its own, as in: whence run --json /dev/fd/3 train.py 3>findings.json"
        )
    record = Record(command=tuple(words), copy=json_path(options.json), no_values=config.no_values)
    pipe = _pipe_behind(record)
    record.folder = new_run_folder(program.name)
    if record.folder is None:
        record.not_watched(
            "the run folder: neither the working directory nor the temporary one can be written"
        )
    return Run(program, config, record, pipe, quiet=options.quiet)


def _pipe_behind(record: Record) -> Path | None:
    """A pipe or a device behind --json, which gets the report once, at the end.

    A plain file is tried out at once.
    """
    if record.copy is None:
        return None
    if record.copy.exists() and not record.copy.is_file():
        pipe, record.copy = record.copy, None
        return pipe
    try:
        # A link stays one: the file that it points to is replaced.
        record.copy = record.copy.resolve()
        write_document(record.report, record.copy)
    except OSError as error:
        raise UsageError(f"cannot write --json {record.copy}: {error.strerror}") from error
    return None


class Run:
    """One run of one program, from its first line to the last word on it.

    The program runs within it as a context, so that no frame of this class is below the program's.
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
        """Of a program that has ended by itself, or was stopped."""
        self._torch = programs.TorchImported(self._start_watching)

    def __enter__(self) -> None:
        self.record.save()
        self.began = process_time()
        self._torch.wait()

    def prepare(self) -> tuple[CodeType, dict[str, Any]]:
        """The program's code, and the namespace of `__main__` to run it in."""
        return programs.prepare(self.program)

    def __exit__(self, _kind: Any, exception: BaseException | None, _traceback: Any) -> bool:
        """See how the program has ended; True if that is not for Python to deal with."""
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
        """torch is there now. A fault of ours must not become the program's."""
        before, began = self.began, process_time()
        collects = gc.isenabled()
        # Nothing of what is imported is garbage, and torch has left much to go through.
        gc.disable()
        try:
            from whence.watching.session import Session

            self.watch = Session(self.config, self.record, self.screen)
            self.watch.budget.note_start(before + process_time() - began)
            self.watch.start()
        except Exception as error:
            self.record.not_watched(
                f"anything: the watch could not be started ({type(error).__name__}: {error})"
            )
        finally:
            if collects:
                gc.enable()

    def _die_of(self, exception: BaseException) -> None:
        """Print the program's traceback as Python would, then the findings; Python does the rest
        with the exception."""
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
        """Give the exception that ends the program what is known of it as notes."""
        if self.watch is None:
            return
        for finding in self.watch.program_failed(exception):
            note = render_note(finding)
            if note not in getattr(exception, "__notes__", []):
                exception.add_note(note)

    def finish(self, outcome: Outcome) -> None:
        """Write the report. The program is over: nothing that goes wrong here may change how it
        ends."""
        if self.finished or getpid() != self.owner:
            return
        self.finished = True
        if self.watch is None or not self._attempt(self._close_watch, outcome):
            # What the last look of the watch would have found is lost; the rest is not.
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
        """Do something for a program that has ended.

        Whatever it raises, Ctrl-C included, costs that and nothing else.
        """
        try:
            action(*args)
            return True
        except BaseException as error:
            self.screen.complain(
                f"could not finish the report: {described(error)}; the record is {self.record.folder}"
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
