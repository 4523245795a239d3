"""Measure the cost of the default watch, as a user sees it.

The same program runs plain and under `whence run`, in two processes. The first table has the steady
state (CPU time of the second half of the steps, watched divided by plain), the beginning (CPU
seconds that Whence adds to the whole program, its children included, and its limit: 1 s plus 3 % of
the program's own) and the peak memory. The second table shows how these grow. Pairs are interleaved
in alternating order; cells are medians, with the lowest and highest pair.

Usage: python bench/table.py [NAME ...] [--pairs N] [--growth] [--full]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs.py"
NAMES = (
    "MLP", "MLP, loader", "LSTM", "ResNet", "GPT", "classifier", "many shapes", "30 models",
    "30 loaders", "30 optimizers",
)  # fmt: skip
GROWTH = {
    "parameters": ((1e5, 1e6, 1e7), (1e8,)),
    "calls": ((10, 100, 1000), (10_000,)),
    "models": ((1, 3, 10), (30,)),
    "steps": ((100, 1000, 10_000), (100_000,)),
}
"""The sizes of each program, and those that take long."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run of one program."""

    steps: int
    half: float
    """CPU seconds of the second half of its steps."""
    peak: float
    seconds: float
    """CPU seconds of the whole process and of its children."""


@dataclass(frozen=True, slots=True)
class Spread:
    middle: float
    low: float
    high: float

    def text(self, form: str) -> str:
        return f"{self.middle:{form}} ({self.low:{form}} to {self.high:{form}})"


def spread(values: list[float]) -> Spread:
    return Spread(statistics.median(values), min(values), max(values))


def run(words: list[str], folder: str, *, watched: bool) -> Measured:
    way = ["-m", "whence", "run", "--quiet"] if watched else []
    command = [sys.executable, *way, str(PROGRAMS), *words]
    # An installed Whence has its bytecode.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as made:
        assert made.stdout is not None
        assert made.stderr is not None
        output, complaints = made.stdout.read(), made.stderr.read()
        _, status, used = os.wait4(made.pid, 0)
        made.returncode = os.waitstatus_to_exitcode(status)
    if made.returncode:
        raise RuntimeError(f"{words}: {complaints.decode()}")
    return Measured(**json.loads(output), seconds=used.ru_utime + used.ru_stime)


def measure(words: list[str], pairs: int) -> list[tuple[Measured, Measured]]:
    """Alternate plain and watched runs of one program."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(pairs):
            first = run(words, folder, watched=bool(number % 2))
            second = run(words, folder, watched=not number % 2)
            found.append((second, first) if number % 2 else (first, second))
    return found


HEAD = (
    f"{'':<22}{'plain s':>8}{'ms/step':>9}{'steady state':>26}{'added s':>22}{'may':>6}"
    f"{'plain MB':>10}{'more MB':>9}{'may':>5}"
)


def line(title: str, found: list[tuple[Measured, Measured]]) -> str:
    plain, watched = zip(*found, strict=True)
    steps = plain[0].steps
    own = statistics.median(each.seconds for each in plain)
    half = statistics.median(each.half for each in plain) / (steps - steps // 2) * 1000
    steady = spread([after.half / before.half for before, after in found])
    added = spread([after.seconds - before.seconds for before, after in found])
    memory = statistics.median(each.peak for each in plain)
    more = statistics.median(each.peak for each in watched) - memory
    return (
        f"{title:<22}{own:>8.1f}{half:>9.2f}{steady.text('.3f'):>26}"
        f"{added.text('.2f'):>22}{1 + 0.03 * own:>6.2f}"
        f"{memory:>10.0f}{more:>9.1f}{30 + 0.02 * memory:>5.0f}"
    )


def costs(names: list[str], pairs: int) -> None:
    print(HEAD)
    for name in names:
        print(line(name, measure([name], pairs)), flush=True)


def growth(pairs: int, *, full: bool) -> None:
    print(HEAD)
    for name, (sizes, large) in GROWTH.items():
        for size in (*sizes, *(large if full else ())):
            print(line(f"{size:,.0f} {name}", measure([name, str(size)], pairs)), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"only these programs: {'; '.join(NAMES)}"
    )
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--growth", action="store_true", help="the second table only")
    parser.add_argument(
        "--full", action="store_true", help="the second table with its largest sizes"
    )
    chosen = parser.parse_args()
    print(f"{chosen.pairs} pairs of processes, CPU time, one thread: medians (lowest to highest)")
    if not chosen.growth:
        costs(chosen.names or list(NAMES), chosen.pairs)
    if chosen.growth or not chosen.names:
        growth(max(1, chosen.pairs // 2), full=chosen.full)


if __name__ == "__main__":
    main()
