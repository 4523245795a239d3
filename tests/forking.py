"""Run programs in forked children of this process, which has already imported torch and Whence."""

from __future__ import annotations

import json
import os
import runpy
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cases import PARANOID, assert_nothing_violated


@dataclass
class Ran:
    """The end of a program, its output, and Whence's."""

    code: int
    stdout: str
    stderr: str
    document: dict[str, Any] = field(default_factory=dict)
    extra: Any = None

    @property
    def findings(self) -> list[dict[str, Any]]:
        return list(self.document.get("findings", []))

    @property
    def loud(self) -> list[dict[str, Any]]:
        return [each for each in self.findings if each["severity"] != "info"]


def in_child(action: Callable[[], Any], *, cwd: Path, patience: int = 120) -> Ran:
    """Run an action in a forked child like a Python process; return its output and exit code."""
    sys.stdout.flush()
    sys.stderr.flush()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _be_a_process(action, cwd, out.fileno(), err.fileno(), patience)
        _, status = os.waitpid(child, 0)
        out.seek(0)
        err.seek(0)
        said, complained = out.read().decode(errors="replace"), err.read().decode(errors="replace")
    return Ran(os.waitstatus_to_exitcode(status), said, complained)


def _be_a_process(action: Callable[[], Any], cwd: Path, out: int, err: int, patience: int) -> None:
    import signal
    import warnings

    code = 70
    try:
        signal.alarm(patience)
        os.dup2(out, 1)
        os.dup2(err, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
        sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
        warnings.resetwarnings()
        warnings.simplefilter("ignore")
        # As in a fresh process: numpy reports invalid results with these warnings.
        warnings.simplefilter("default", RuntimeWarning)
        os.chdir(cwd)
        _forget_neighbours()
        try:
            action()
            code = 0
        except SystemExit as leaving:
            code = (
                leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
            )
            if isinstance(leaving.code, str):
                print(leaving.code, file=sys.stderr)
        except BaseException as exception:
            sys.excepthook(type(exception), exception, exception.__traceback__)
            code = 1
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _forget_neighbours() -> None:
    """Forget helper modules: programs in cases/ have helper files of the same names."""
    _forget("cases")


def _forget_tests() -> None:
    """Forget the test modules, which would be read as part of the program.

    Objects that are pickled by name stay, so this is only for programs in their own files.
    """
    _forget("tests")


def _forget(folder: str) -> None:
    below = str(Path(__file__).parents[1] / folder)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(below):
            del sys.modules[name]


def whence_run(
    script: Path, *options: str, cwd: Path, args: tuple[str, ...] = (), patience: int = 120
) -> Ran:
    """Run `whence run` on a script in its own folder; a killed run has its findings there."""
    from whence.cli import main
    from whence.watching import budget

    document = cwd / "findings.json"
    violations = cwd / "violations.jsonl"

    def action() -> None:
        _forget_tests()
        _be_paranoid(violations)
        if "--budget" not in options:
            # How much fits into the first second depends on the machine.
            budget.FLOOR_SECONDS = 60.0
        main(["run", *options, "--json", str(document), str(script), *args])

    slower = 3 if os.environ.get("WHENCE_PARANOID") else 1
    ran = in_child(action, cwd=cwd, patience=patience * slower)
    kept = [document, *cwd.glob(".whence/*/findings.json")]
    if found := [each for each in kept if each.exists()]:
        ran.document = json.loads(found[0].read_text())
    assert_nothing_violated(violations)
    return ran


def _be_paranoid(violations: Path) -> None:
    """Start paranoid mode, as a fresh process does if WHENCE_PARANOID is set."""
    if os.environ.get("WHENCE_PARANOID"):
        os.environ["WHENCE_PARANOID_FILE"] = str(violations)
        runpy.run_path(str(PARANOID / "sitecustomize.py"))


def plain_run(script: Path, *, cwd: Path, args: tuple[str, ...] = ()) -> Ran:
    """Run the same script with Python alone."""

    def action() -> None:
        sys.argv = [str(script), *args]
        sys.path[0] = str(script.parent)
        runpy.run_path(str(script), run_name="__main__")

    return in_child(action, cwd=cwd)
