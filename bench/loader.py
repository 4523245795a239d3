"""What the watch adds to a loader that does nothing but index a tensor dataset, batches of 256, and to the time within a worker.

Many short epochs, plain and watched in turn (which goes first changes too), in one process; CPU time. A busy machine
slows single epochs down and never speeds one up: beside the median of the ratios there is the ratio of the quickest ones.

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
from whence.session import Session

BATCHES, BATCH = 40, 256
WARM = 6
"""Epochs after which a loader is known: of the first ones more is noted, as of the first steps of a run."""


class Quiet:
    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


def epoch(loader: Any) -> float:
    began = time.process_time()
    for _ in loader:
        pass
    return time.process_time() - began


class Timed(Dataset[torch.Tensor]):
    """Gives the processor time that its worker has taken so far."""

    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> torch.Tensor:
        assert get_worker_info() is not None
        return torch.tensor([float(index), time.process_time()], dtype=torch.float64)


def in_worker(loader: Any) -> float:
    return max(float(batch[:, 1].max()) for batch in loader)


def compared(measure: Callable[[Any], float], loader: Any, pairs: int) -> tuple[list[float], list[float]]:
    """Seconds of plain and of watched epochs, pair by pair."""
    session = Session(Config(), Record(), Quiet())

    def watched() -> float:
        # As in a long run: calls are no longer recorded, and the loader is still watched.
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
    plain, seen = [], []
    for number in range(pairs):
        if number % 2:
            seen.append(watched())
            plain.append(measure(loader))
        else:
            plain.append(measure(loader))
            seen.append(watched())
    return plain, seen


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 101
    torch.set_num_threads(1)
    samples = BATCHES * BATCH
    loader = DataLoader(TensorDataset(torch.randn(samples, 16), torch.randint(0, 10, (samples,))), batch_size=BATCH)
    workers = DataLoader(Timed(), batch_size=64, num_workers=1)
    for name, measure, thing, count in (
        ("loader", epoch, loader, pairs),
        ("within a worker", in_worker, workers, max(pairs // 8, 3)),
    ):
        plain, seen = compared(measure, thing, count)
        ratios = sorted(watched / alone for watched, alone in zip(seen, plain, strict=True))
        quick = sorted(seen)[: max(count // 10, 1)], sorted(plain)[: max(count // 10, 1)]
        batch = statistics.median(plain) / (BATCHES if measure is epoch else 32)
        print(
            f"{name:16s} median {statistics.median(ratios):.3f}  quickest {sum(quick[0]) / sum(quick[1]):.3f}  "
            f"(half of the pairs {ratios[count // 4]:.3f} to {ratios[-count // 4]:.3f}, {count} pairs; {batch * 1e3:.2f} ms a batch)"
        )


if __name__ == "__main__":
    main()
