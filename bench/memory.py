"""What the default watch costs in memory: the peak of a whole run, plain and watched, each in a process of its own.

A plain run does not even import Whence. The nets are those of bench/overhead.py, where what is always there (Whence's own code
and its tape) is most of the difference, and the same kinds in the sizes that people train: the LSTM language model of
PyTorch's examples in its medium size, ResNet-18 at full width, a 6-layer GPT 384 wide. What malloc keeps differs from run to
run by a twentieth in the larger ones: the medians of several runs.

Usage: python bench/memory.py [--long]     (--long: 50,000 watched steps, whose memory must stay flat)
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from workloads import USUAL, WORKLOADS

STEPS = {"MLP": 500, "LSTM": 40, "ResNet": 12, "GPT": 8}
USUAL_STEPS = 8
RUNS = 5


def child(name: str, steps: int, watched: bool) -> None:
    """One run; prints its memory in MB after a fifth of its steps and at its end, and its peak."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    _, step = next(each for each in (*WORKLOADS, *USUAL) if each.name == name).build()
    session = None
    if watched:
        from whence.config import Config
        from whence.record import Record
        from whence.report.live import LiveReport
        from whence.watching.session import Session

        session = Session(Config(), Record(), LiveReport(quiet=True, folder=None))
        session.start()
    early = 0.0
    for number in range(steps):
        step()
        if number == steps // 5:
            early = _resident()
    print(early, _resident(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    if session is not None:
        session.stop()


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def run_child(name: str, steps: int, watched: bool) -> list[float]:
    command = [sys.executable, __file__, "--child", name, str(steps), "watched" if watched else "plain"]
    return [float(each) for each in subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()]


def table() -> None:
    print(f"{'':<16}{'plain':>9}{'watched':>12}{'more':>10}{'ratio':>9}")
    for workload in (*WORKLOADS, *USUAL):
        steps = STEPS.get(workload.name, USUAL_STEPS)
        peaks = [[run_child(workload.name, steps, each)[2] for each in (False, True)] for _ in range(RUNS)]
        plain, watched = (statistics.median(each) for each in zip(*peaks, strict=True))
        more = watched - plain
        print(
            f"{workload.name:<16}{plain:>6.0f} MB{watched:>9.0f} MB{more:>7.1f} MB{watched / plain:>9.3f}", flush=True
        )


def long() -> None:
    early, late, _ = run_child("MLP", 50_000, True)
    print(f"50,000 watched steps of the MLP: {early:.1f} MB after 10,000, {late:.1f} MB at the end")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="50,000 steps")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        child(chosen.child[0], int(chosen.child[1]), chosen.child[2] == "watched")
    elif chosen.long:
        long()
    else:
        table()


if __name__ == "__main__":
    main()
