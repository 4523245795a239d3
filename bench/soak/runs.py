"""Run a script plain and under `whence run`, in a new process or in a fork that has torch."""

from __future__ import annotations

import enum
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 300


class Start(enum.Enum):
    """How a program's process starts. A fork saves the import of torch; users start a process."""

    PROCESS = "process"
    FORK = "fork"


@dataclass(frozen=True)
class Ran:
    """The end of a program, as its user sees it."""

    code: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def exception(self) -> str:
        """The first line of the message that ends the last traceback."""
        if "Traceback (most recent call last)" not in self.stderr:
            return ""
        for line in self.stderr.rpartition("Traceback (most recent call last)")[2].splitlines()[1:]:
            if line and not line.startswith((" ", "\t")):
                return line
        return ""


def run(command: list[str], folder: Path) -> Ran:
    """Run a command in a folder; a program that does not end counts as exit code -9."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    began = time.monotonic()
    try:
        ended = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired as expired:
        said = [
            each.decode(errors="replace") if isinstance(each, bytes) else each or ""
            for each in (expired.stdout, expired.stderr)
        ]
        return Ran(-9, said[0], said[1], time.monotonic() - began)
    return Ran(ended.returncode, ended.stdout, ended.stderr, time.monotonic() - began)


def run_plain(script: Path, start: Start) -> Ran:
    if start is Start.FORK:
        return _forked(script)[0]
    return run([sys.executable, script.name], script.parent)


def run_watched(script: Path, start: Start) -> tuple[Ran, dict[str, Any]]:
    """The run under Whence, and its findings.json."""
    if start is Start.FORK:
        return _forked(script, "watched")
    document = script.parent / "findings.json"
    document.unlink(missing_ok=True)
    ran = run(
        [sys.executable, "-m", "whence", "run", "--json", document.name, script.name], script.parent
    )
    return ran, json.loads(document.read_text()) if document.exists() else {}


def _forked(script: Path, how: str = "plain") -> tuple[Ran, dict[str, Any]]:
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))
    import conftest  # noqa: F401  imports torch and Whence once, before the first fork
    import forking

    began = time.monotonic()
    if how == "plain":
        ended = forking.plain_run(script, cwd=script.parent)
    else:
        ended = forking.whence_run(script, cwd=script.parent, patience=PATIENCE)
    return Ran(ended.code, ended.stdout, ended.stderr, time.monotonic() - began), ended.document
