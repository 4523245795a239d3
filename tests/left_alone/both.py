"""Run one program twice, plain and watched."""

from __future__ import annotations

import difflib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cases import PARANOID, ROOT, assert_nothing_violated
from forking import Ran, plain_run, whence_run

PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_SECONDS = 240


def environment(violations: Path | None = None) -> dict[str, str]:
    """The sources of this tree, one thread; paranoid if a file for violations is named."""
    path = [str(ROOT / "src"), os.environ.get("PYTHONPATH")]
    if violations is not None and os.environ.get("WHENCE_PARANOID"):
        path = [str(PARANOID), *path]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "WHENCE_PARANOID_FILE": str(violations or ""),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }


def start(words: list[str], cwd: Path, violations: Path | None = None) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=cwd,
        env=environment(violations),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Background jobs of a shell ignore SIGINT, and so would the program.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def run_both(
    program: str, *args: str, folder: Path, cwd: Path | None = None, paranoid: bool = True
) -> tuple[Ran, Ran]:
    """Run both at once. `program` is a file in programs/, or begins with -m."""
    words = program.split() if program.startswith("-m") else [str(PROGRAMS / program)]
    document, violations = folder / "findings.json", folder / "violations.jsonl"
    watch = ["-m", "whence", "run", "--json", str(document)]
    for each in ("plain", "watched"):
        (folder / each).mkdir()
    processes = [
        start([*words, *args], cwd or folder / "plain"),
        start([*watch, *words, *args], cwd or folder / "watched", violations if paranoid else None),
    ]
    runs = []
    try:
        for process in processes:
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            runs.append(Ran(process.returncode, out, err))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
    if document.exists():
        runs[1].document = json.loads(document.read_text())
    assert_nothing_violated(violations)
    return runs[0], runs[1]


def same(program: str, *args: str, folder: Path, trains: bool = True, paranoid: bool = True) -> Ran:
    """Assert that the watched run prints and ends as the plain one does; return the watched run.

    Both are forked children of the test process, which has already imported torch.
    """
    for each in ("plain", "watched"):
        (folder / each).mkdir()
    plain = plain_run(PROGRAMS / program, cwd=folder / "plain", args=args)
    with pytest.MonkeyPatch.context() as patch:
        if paranoid:
            patch.setenv("WHENCE_PARANOID", "1")
        watched = whence_run(PROGRAMS / program, cwd=folder / "watched", args=args)
    return _compared(plain, watched, trains=trains)


def same_process(
    program: str,
    *args: str,
    folder: Path,
    code: int = 0,
    trains: bool = True,
    paranoid: bool = True,
) -> Ran:
    """The same in two fresh processes, for programs that can observe how theirs started."""
    plain, watched = run_both(program, *args, folder=folder, paranoid=paranoid)
    return _compared(plain, watched, code=code, trains=trains)


def _compared(plain: Ran, watched: Ran, *, code: int = 0, trains: bool) -> Ran:
    assert plain.code == code, f"the plain run is at fault\n{plain.stdout}\n{plain.stderr}"
    assert watched.stdout == plain.stdout, difference(plain, watched)
    assert watched.code == plain.code, f"{watched.code} instead of {plain.code}\n{watched.stderr}"
    assert_watched(watched, trains=trains)
    return watched


def assert_watched(watched: Ran, *, trains: bool = True) -> None:
    """Assert that the program was watched: an unwatched program proves nothing."""
    assert watched.document, watched.stderr
    unseen = watched.document["not_watched"]
    assert not any(each.startswith("anything:") for each in unseen), unseen
    assert not any("sensor failed" in each for each in unseen), unseen
    if trains:
        assert watched.document["steps"] > 0, watched.stderr


def difference(plain: Ran, watched: Ran) -> str:
    lines = difflib.unified_diff(
        plain.stdout.splitlines(), watched.stdout.splitlines(), "plain", "watched", lineterm="", n=1
    )
    return "\n".join([*lines, "", watched.stderr[-3000:]])
