"""Measure the diagnosis of a loss divided by zero, long after recording has stopped.

The time of that step minus that of a plain step, in seconds and in plain steps. The goal is 3
seconds plus ten steps.

    python bench/diagnosis.py
"""

from __future__ import annotations

import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from workloads import DIVISOR, WORKLOADS, Step

from whence.config import Config
from whence.record import Record
from whence.report.live import LiveReport
from whence.watching.session import Session


def seconds(step: Step) -> float:
    began = time.perf_counter()
    step()
    return time.perf_counter() - began


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread")
    print(f"{'':<8}{'ms/step':>9}{'diagnosis':>12}{'allowed':>10}  finding")
    for workload in WORKLOADS:
        torch.manual_seed(0)
        _, step = workload.build()
        session = Session(Config(), record := Record(), LiveReport(quiet=True, folder=None))
        session.start()
        while session.calls.on:
            step()
        plain = statistics.median(seconds(step) for _ in range(5))
        DIVISOR.fill_(0)
        spent = seconds(step) - plain
        DIVISOR.fill_(1)
        session.stop()
        rules = ", ".join(each.rule for each in record.report.findings) or "none"
        print(
            f"{workload.name:<8}{plain * 1000:>9.2f}{spent:>10.2f} s{3 + 10 * plain:>8.2f} "
            f"s  {rules}"
        )


if __name__ == "__main__":
    main()
