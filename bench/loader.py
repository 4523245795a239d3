"""Measure what the watch adds to a loader that only indexes a tensor dataset, and to its workers.

Batches of 256. Many short epochs, plain and watched alternating (as does which is first), in one
process; CPU time of each batch, and of all work in a worker. Other load on the machine only slows
batches down, so the fastest tenth is printed beside the median.

    python bench/loader.py [pairs]
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

from whence.config import Config
from whence.finding import Finding
from whence.record import Record
from whence.watching.session import Session

BATCHES, BATCH = 40, 256
WARM = 6
"""Epochs until a loader is known: more is noted in the first ones, as in a run's first steps."""


class Quiet:
    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


def in_loop(loader: Any) -> list[float]:
    """Seconds of each batch of an epoch, including its beginning and its end."""
    found = []
    began = time.thread_time()
    for _ in loader:
        now = time.thread_time()
        found.append(now - began)
        began = now
    found[-1] += time.thread_time() - began
    return found


class Timed(Dataset[torch.Tensor]):
    """Yield the CPU time that its worker has used so far."""

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> torch.Tensor:
        assert get_worker_info() is not None
        return torch.tensor([float(index), time.process_time()], dtype=torch.float64)


def in_worker(loader: Any) -> list[float]:
    return [max(float(batch[:, 1].max()) for batch in loader)]


def compared(
    measure: Callable[[Any], list[float]], loader: Any, pairs: int
) -> tuple[list[float], list[float]]:
    """Alternate plain and watched epochs."""
    session = Session(Config(), Record(), Quiet())
    plain: list[float] = []
    seen: list[float] = []

    def watched() -> list[float]:
        # As in a long run: calls are no longer recorded, but the loader is still watched.
        for sensor in session.sensors:
            sensor.start()
        try:
            return measure(loader)
        finally:
            session.stop()

    for _ in range(WARM):
        watched()
    gc.collect()
    gc.freeze()
    for number in range(pairs):
        if number % 2:
            seen += watched()
            plain += measure(loader)
        else:
            plain += measure(loader)
            seen += watched()
    return sorted(plain), sorted(seen)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    torch.set_num_threads(1)
    samples = BATCHES * BATCH
    loader = DataLoader(
        TensorDataset(torch.randn(samples, 16), torch.randint(0, 10, (samples,))), batch_size=BATCH
    )
    workers = DataLoader(Timed(), batch_size=64, num_workers=1)
    for name, measure, thing, count in (
        ("a batch", in_loop, loader, pairs),
        ("within a worker", in_worker, workers, max(pairs // 8, 4)),
    ):
        plain, seen = compared(measure, thing, count)
        tenth = max(len(plain) // 10, 1)
        quickest = statistics.mean(plain[:tenth]), statistics.mean(seen[:tenth])
        medians = statistics.median(plain), statistics.median(seen)
        print(
            f"{name:16s} quickest tenth {quickest[1] / quickest[0]:.3f} "
            f"({quickest[0] * 1e3:.3f} ms plain)  "
            f"median {medians[1] / medians[0]:.3f} ({medians[0] * 1e3:.3f} ms)  {count} "
            "pairs of epochs"
        )


if __name__ == "__main__":
    main()
