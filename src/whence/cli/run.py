"""Run a program under the watch.

The program cannot tell the difference: its arguments, random numbers, output, exceptions and exit code are its own.
Findings go to stderr as they are made; every run leaves .whence/<time>-<script>/findings.json.

example: whence run train.py --epochs 3
         whence run --fail-on error --json findings.json -m mypackage.train
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from whence.cli.outputs import json_path
from whence.config import Config, UsageError, read_config, rule_patterns, severity
from whence.finding import Outcome, Report, described
from whence.record import Record, document_of, new_run_folder, write_document
from whence.report.live import LiveReport
from whence.report.note import render_note
from whence.sensors import program as programs
from whence.watching.stopping import Stop

if TYPE_CHECKING:
    from whence.watching.session import Session

TAKES_VALUE = ("--select", "--ignore", "--fail-on", "--stop-on", "--steps", "--budget", "--hang-after", "--json")


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="whence run",
        usage="whence run [options] (script.py | -m module | -c code) [args]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("--select", metavar="RULES", help="only these rules or families, separated by commas")
    made.add_argument("--ignore", metavar="RULES", help="not these rules or families")
    made.add_argument(
        "--fail-on",
        metavar="LEVEL",
        help="exit with 1 if there is a finding of this level or above: info, warning, error, never",
    )
    made.add_argument("--stop-on", metavar="LEVEL", help="end the program at the first finding of this level or above")
    made.add_argument("--steps", metavar="N", help="end the watch after N steps; the program goes on without it")
    made.add_argument(
        "--budget", metavar="SHARE", help="share of the run's time that recording may take (default 0.01)"
    )
    made.add_argument("--hang-after", metavar="SECONDS", help="say so if nothing computes for so long (default 60)")
    made.add_argument("--json", metavar="PATH", help="write findings.json there as well; - is stdout")
    made.add_argument("--quiet", action="store_true", help="print nothing but findings of level error")
    return made


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Whence's own options, and the program with its arguments: everything from the first word that is not an option."""
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
        raise UsageError("nothing to run; expected a script, -m module or -c code, as in: whence run train.py")
    if words[0] in ("-m", "-c") and len(words) < 2:
        raise UsageError(f"{words[0]} needs a {'module name' if words[0] == '-m' else 'piece of code'} behind it")
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
                f"--budget must be a share of the run's time between 0 and 1, such as 0.01; got {options.budget!r}"
            )
        config = replace(config, budget=share)
    if options.hang_after is not None:
        try:
            seconds = float(options.hang_after)
        except ValueError:
            seconds = 0.0
        if not 0 < seconds < float("inf"):
            raise UsageError(f"--hang-after must be a number of seconds, such as 60; got {options.hang_after!r}")
        config = replace(config, hang_after=seconds)
    if options.steps is not None:
        if not options.steps.isdecimal() or int(options.steps) < 1:
            raise UsageError(f"--steps must be a number of steps, such as 50; got {options.steps!r}")
        config = replace(config, steps=int(options.steps))
    return config


def _rules(given: str, where: str) -> tuple[str, ...]:
    return rule_patterns([each.strip() for each in given.split(",")], where)


def main(arguments: list[str]) -> int:
    own, words = split(arguments)
    options = parser().parse_args(own)
    config = choose(options)
    program = find_program(words)
    target = json_path(options.json)
    try:
        folder = new_run_folder(program.name)
    except OSError as error:
        raise UsageError(f"cannot make the run folder .whence in {Path.cwd()}: {error.strerror}") from error
    return Run(program, config, folder, target, words, quiet=options.quiet).go()


class Run:
    """One run of one program, from its first line to the last word on it."""

    def __init__(
        self,
        program: programs.Program,
        config: Config,
        folder: Path,
        json_path: Path | None,
        command: list[str],
        *,
        quiet: bool,
    ) -> None:
        self.program = program
        self.config = config
        self.json_path = json_path
        self.owner = os.getpid()
        self.stdout = sys.stdout
        self.record = Record(command=tuple(command), folder=folder)
        self.screen = LiveReport(quiet=quiet, folder=folder)
        self.watch: Session | None = None
        self.finished = False

    def go(self) -> int:
        self.record.save()
        self._catch_sigterm()
        waiting = programs.TorchImported(self._start_watching)
        waiting.wait()
        try:
            programs.run(self.program)
        except Stop:
            self.finish(Outcome(exit_code=1))
            return 1
        except SystemExit as leaving:
            code = _exit_code(leaving.code)
            if self.watch is not None:
                self.watch.program_failed(leaving)
            self.finish(Outcome(exit_code=code))
            if self._fails(code):
                return 1
            raise
        except BaseException as exception:
            self._die_of(exception)
            raise
        finally:
            waiting.forget()
        self.finish(Outcome(exit_code=0))
        return 1 if self._fails(0) else 0

    def _start_watching(self) -> None:
        """torch is there now. A fault of ours must not become the program's."""
        collects = gc.isenabled()
        # Nothing of what is imported is garbage, and torch has left much to go through.
        gc.disable()
        try:
            from whence.watching.session import Session

            self.watch = Session(self.config, self.record, self.screen)
            self.watch.start()
        except Exception as error:
            self.record.not_watched(f"anything: the watch could not be started ({type(error).__name__}: {error})")
        finally:
            if collects:
                gc.enable()

    def _die_of(self, exception: BaseException) -> None:
        """Print the program's traceback as Python would, then the findings; Python does the rest when it gets the exception."""
        programs.clean(exception)
        if self.watch is not None:
            for finding in self.watch.program_failed(exception):
                note = render_note(finding)
                if note not in getattr(exception, "__notes__", []):
                    exception.add_note(note)
            self.watch.stop()
        sys.last_type, sys.last_value, sys.last_traceback = type(exception), exception, exception.__traceback__
        try:
            sys.excepthook(type(exception), exception, exception.__traceback__)
        finally:
            sys.excepthook = lambda *_: None
            interrupted = isinstance(exception, KeyboardInterrupt)
            self.finish(Outcome(exit_code=130 if interrupted else 1, exception=described(exception)))

    def finish(self, outcome: Outcome) -> None:
        """Write the report. The program is over: nothing that goes wrong here may change how it ends."""
        if self.finished or os.getpid() != self.owner:
            return
        self.finished = True
        try:
            report = self.watch.close(outcome) if self.watch is not None else self.record.close(outcome=outcome)
            self.screen.close(report)
            if self.json_path is not None:
                self._write_json(report, self.json_path)
        except (OSError, ValueError) as error:
            self.screen.complain(f"could not finish the report: {error}; what there is is in {self.record.folder}")

    def _write_json(self, report: Report, path: Path) -> None:
        if str(path) == "-":
            print(json.dumps(document_of(report), indent=1), file=self.stdout, flush=True)
        elif (path.exists() and not path.is_file()) or path.is_symlink():
            # A pipe, a device or a link is written through; only a plain file is replaced as a whole.
            path.write_text(json.dumps(document_of(report), indent=1) + "\n", encoding="utf-8")
        else:
            write_document(report, path)

    def _fails(self, code: int) -> bool:
        return code == 0 and self.config.fail_on is not None and self.record.reaches(self.config.fail_on)

    def _catch_sigterm(self) -> None:
        """Write the report when the program is told to end, then let it end as it would have."""

        def end(number: int, _frame: FrameType | None) -> None:
            if os.getpid() == self.owner:
                self.finish(Outcome(exit_code=128 + number))
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, end)
            if hasattr(os, "register_at_fork"):
                # A signal that arrives in a child before Python could run our handler there would be lost:
                # it is held back over the fork, and the child has the default action when it comes.
                os.register_at_fork(
                    before=_hold_sigterm, after_in_parent=_let_sigterm, after_in_child=lambda: _reset_sigterm(end)
                )


def _hold_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})


def _let_sigterm() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})


def _reset_sigterm(ours: Any) -> None:
    if signal.getsignal(signal.SIGTERM) is ours:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _let_sigterm()


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
