"""What the default watch costs, beside plain training, torch's anomaly mode and Hugging Face's DebugUnderflowOverflow.

Blocks of steps, plain and watched in turn in one process, one thread; the median of the ratios of neighbours. The watch is
timed after it has recorded what it needs; what that took is printed as well. For memory see bench/memory.py.

Usage: python bench/overhead.py [pairs]     (at least so many)
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterator

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import nn
from workloads import WORKLOADS, Step, Workload

from whence.config import Config
from whence.record import Record
from whence.report.live import LiveReport
from whence.watching.auditing import LEDGER_STEPS
from whence.watching.pacing import GRACE_CALLS
from whence.watching.session import Session

SECONDS = 20
"""For each workload at least, plain and watched together."""

Way = Callable[[nn.Module], contextlib.AbstractContextManager[None]]


class Watched:
    """A watch as it is for most of a run, put on and taken off around blocks of steps.

    By then the calls of some steps are recorded, their order is no longer written down, and hooks on modules are off where
    they are too dear for so short a step.
    """

    def __init__(self, step: Step) -> None:
        self.session = Session(Config(), Record(), LiveReport(quiet=True, folder=None))
        self.session.start()
        while self.session.calls.on:
            step()
        self.recorded = self.session.cost()
        settled = max(self.session.step, LEDGER_STEPS) + 60
        began = time.perf_counter()
        while self.session.step < settled and time.perf_counter() - began < 20:
            step()
        self.sensors = [sensor for sensor in self.session.sensors if sensor.on]
        self.session.stop()

    @contextlib.contextmanager
    def __call__(self, _model: nn.Module) -> Iterator[None]:
        for sensor in self.sensors:
            sensor.start()
        try:
            yield
        finally:
            self.session.stop()


@contextlib.contextmanager
def anomaly(_model: nn.Module) -> Iterator[None]:
    with torch.autograd.detect_anomaly():
        yield


@contextlib.contextmanager
def underflow_overflow(model: nn.Module) -> Iterator[None]:
    from transformers.debug_utils import DebugUnderflowOverflow

    DebugUnderflowOverflow(model)
    try:
        yield
    finally:
        for module in model.modules():
            module._forward_hooks.clear()


def seconds(step: Step, steps: int) -> float:
    began = time.process_time()
    for _ in range(steps):
        step()
    return time.process_time() - began


def ratio(workload: Workload, model: nn.Module, step: Step, way: Way, pairs: int) -> float:
    """Neighbours are a moment apart, and which of them comes first changes."""

    def plain() -> float:
        step()
        return seconds(step, workload.steps)

    def watched() -> float:
        with way(model):
            step()
            return seconds(step, workload.steps)

    found = []
    for number in range(pairs):
        if number % 2:
            after = watched()
            before = plain()
        else:
            before = plain()
            after = watched()
        found.append(after / before)
    return statistics.median(found)


def table(pairs: int) -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread, medians of interleaved pairs, CPU time")
    print(f"{'':<8}{'ms/step':>9}{'pairs':>7}{'whence':>9}{'anomaly':>9}{'HF debug':>10}{'recording':>11}")
    for workload in WORKLOADS:
        torch.manual_seed(0)
        model, step = workload.build()
        seconds(step, 3)
        plain = seconds(step, workload.steps) / workload.steps * 1000
        watch = Watched(step)
        # A block of the quickest is some milliseconds, which anything may disturb: the more of them.
        many = max(pairs, int(SECONDS * 1000 / (2 * plain * workload.steps)))
        cells = [ratio(workload, model, step, watch, many), ratio(workload, model, step, anomaly, min(pairs, 5))]
        try:
            with contextlib.redirect_stdout(None):
                cells.append(ratio(workload, model, step, underflow_overflow, min(pairs, 5)))
        except ImportError:
            cells.append(float("nan"))
        print(
            f"{workload.name:<8}{plain:>9.2f}{many:>7}{cells[0]:>9.3f}{cells[1]:>9.2f}{cells[2]:>10.2f}{watch.recorded:>9.2f} s"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="?", type=int, default=9)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    print(f"(recording stops after {GRACE_CALLS} calls, or 1 % of the run)")
    table(chosen.pairs)


if __name__ == "__main__":
    main()
