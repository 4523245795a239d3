"""The command line, one file per subcommand. Commands parse and call; they format nothing."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from whence.cli.outputs import complain
from whence.config import UsageError

if TYPE_CHECKING:
    from whence.cli.run import Run

COMMANDS = ("run", "check", "data", "report", "rule", "demo")
"""Subcommands, each imported on use so that `whence run` does not load what the others need."""

USAGE = """\
usage: whence <command> ...

  whence run train.py [args]     run a program and explain what breaks (also: -m module, -c code)
  whence check module:function   check model, batch and loss before training
  whence data module:loader      survey data without training
  whence report [run]            show a recorded run again
  whence rule [id]               list the rules, or explain one
  whence demo [name]             run a bundled broken program and show its diagnosis

Run `whence <command> --help` for details. To start: whence demo
"""


def main(argv: list[str] | None = None) -> None:
    arguments = sys.argv[1:] if argv is None else argv
    try:
        asked = dispatch(arguments)
        if isinstance(asked, int):
            code = asked
        else:
            # Run the program in this frame: every extra frame below it uses up its recursion limit.
            with asked:
                exec(*asked.prepare())
            code = asked.exit_code
    except UsageError as error:
        complain(str(error))
        code = 2
    except BrokenPipeError:
        if arguments[:1] in (["run"], ["demo"]):
            # The program raised it, so Python handles it.
            raise
        # The reader of our output (head, less) has closed the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    if code:
        sys.exit(code)


def dispatch(arguments: list[str]) -> int | Run:
    """Run a subcommand; return its exit code, or the program it should run."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE, end="")
        return 0 if arguments else 2
    if arguments[0] in ("-V", "--version"):
        from whence.version import VERSION

        print(f"whence {VERSION}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        raise UsageError(
            f"unknown command {name!r}; expected one of {', '.join(COMMANDS)} (to run a "
            f"program: whence run {name})"
        )
    if name != "run":
        # `import torch` warns when numpy is missing. Under `whence run` the warning is the
        # program's own.
        warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    command: Callable[[list[str]], int | Run] = import_module(f"whence.cli.{name}").main
    return command(rest)
