"""Measure the cost of fitting and checking a data contract, relative to one pass of numpy.

The numpy pass is mean(axis=0) and std(axis=0) over the same table. Pairs alternate in one process
and one thread; the figure is the median of the ratios of neighbours. Memory is the peak of the
process beyond its size before (Linux), including what torch loads at its first use.

Usage: python bench/contract.py [pairs] [--rows N] [--columns N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from whence.data.contract import Contract


def table(rows: int, columns: int) -> np.ndarray:
    """Make normal float32 values, in blocks so that this leaves no memory peak."""
    made = np.empty((rows, columns), dtype=np.float32)
    generator = np.random.default_rng(0)
    for start in range(0, rows, 100_000):
        block = made[start : start + 100_000]
        block[:] = generator.standard_normal(block.shape, dtype=np.float32)
    return made


def seconds(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return time.process_time() - began


def status(key: str) -> float:
    """A line of this process's status, in MB (Linux)."""
    line = next(
        each for each in Path("/proc/self/status").read_text().splitlines() if each.startswith(key)
    )
    return int(line.split()[1]) / 1024


def extra_memory(action: Callable[[], object]) -> float:
    """The peak memory of the process beyond its size before, in MB."""
    Path("/proc/self/clear_refs").write_text("5")
    before = status("VmRSS")
    action()
    return status("VmHWM") - before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", nargs="?", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=50)
    chosen = parser.parse_args()
    torch.set_num_threads(1)

    data = table(chosen.rows, chosen.columns)
    to_fit = extra_memory(lambda: Contract.fit(data))
    contract = Contract.fit(data)
    to_check = extra_memory(lambda: contract.check(data))
    assert contract.check(data).ok

    def numpy_pass() -> None:
        data.mean(axis=0)
        data.std(axis=0)

    plain, fits, checks = [], [], []
    for _ in range(chosen.pairs):
        plain.append(seconds(numpy_pass))
        fits.append(seconds(lambda: Contract.fit(data)) / plain[-1])
        plain.append(seconds(numpy_pass))
        checks.append(seconds(lambda: contract.check(data)) / plain[-1])

    print(
        f"numpy {np.__version__}, torch {torch.__version__}, {torch.get_num_threads()} "
        "thread, CPU time"
    )
    print(
        f"{chosen.rows:,} rows x {chosen.columns} columns float32, median of "
        f"{chosen.pairs} interleaved pairs"
    )
    print(f"{'':<24}{'seconds':>9}{'ratio':>8}")
    whole = statistics.median(plain)
    print(f"{'numpy mean and std':<24}{whole:>9.2f}{1:>8.2f}")
    for name, ratios in (("Contract.fit", fits), ("Contract.check", checks)):
        ratio = statistics.median(ratios)
        print(f"{name:<24}{ratio * whole:>9.2f}{ratio:>8.2f}")
    print(
        f"extra memory: {to_fit:.0f} MB to fit, {to_check:.0f} MB to check a table of "
        f"{data.nbytes / 2**20:,.0f} MB"
    )


if __name__ == "__main__":
    main()
