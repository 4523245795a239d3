"""What the watch adds to a loader that does nothing but index a tensor dataset, batches of 256, and to the time within a worker.

Epochs with and without the watch, interleaved in one process; CPU time; the median of the ratios.

    python bench/loader.py [pairs]
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset, get_worker_info

from whence.config import Config
from whence.finding import Finding
from whence.record import Record
from whence.session import Session

SAMPLES, BATCH = 100_000, 256


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
        return 4096

    def __getitem__(self, index: int) -> torch.Tensor:
        assert get_worker_info() is not None
        return torch.tensor([float(index), time.process_time()], dtype=torch.float64)


def in_worker(loader: Any) -> float:
    return max(float(batch[:, 1].max()) for batch in loader)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    torch.set_num_threads(1)
    loader = DataLoader(TensorDataset(torch.randn(SAMPLES, 16), torch.randint(0, 10, (SAMPLES,))), batch_size=BATCH)
    workers = DataLoader(Timed(), batch_size=64, num_workers=1)
    epoch(loader)
    for name, measure, thing in (("loader", epoch, loader), ("within a worker", in_worker, workers)):
        ratios = []
        session = Session(Config(), Record(), Quiet())
        for _ in range(pairs):
            # As in a long run: calls are no longer recorded, and the loader is still watched.
            for sensor in session.sensors:
                sensor.start()
            watched = measure(thing)
            session.stop()
            ratios.append(watched / measure(thing))
        print(f"{name:16s} {statistics.median(ratios):.3f}  ({min(ratios):.3f} to {max(ratios):.3f}, {pairs} pairs)")


if __name__ == "__main__":
    main()
