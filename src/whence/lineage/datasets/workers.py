"""What became of a worker: its samples are fetched again in a child process that tells each line before it runs it."""

from __future__ import annotations

import ast
import json
import os
import select
import signal
import sys
import time
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from torch.utils.data._utils import worker as torch_worker

from whence.lineage.datasets.asking import alike, kept_leaves, line_of, set_seeds, streams
from whence.lineage.elsewhere import begin_quietly
from whence.source.sites import is_library, sites_in
from whence.source.spots import Spot
from whence.source.text import statement_at
from whence.tape.batches import LoaderInfo

PATIENCE_SECONDS = 4.0
BASE = 4242


@dataclass(frozen=True, slots=True)
class Ending:
    """How fetching a worker's samples again went: the sample it ended at, and the line that was running."""

    how: str
    """died, hung, or went well."""
    index: Any = None
    spot: Spot | None = None


def be_worker(info: LoaderInfo, number: int | None) -> None:
    """Only ever in a child process: a dataset that asks which worker it is in hears what it heard there."""
    if number is not None:
        seed = torch.initial_seed()
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=number, num_workers=info.workers, seed=seed, dataset=info.dataset
        )


def alike_in_workers(info: LoaderInfo, indices: list[Any]) -> Spot | None:
    """Where the program's own function for a worker's beginning makes all workers draw the same numbers.

    Only ever in a child process: it becomes one worker after the other, as torch seeds them, and asks for the same samples.
    """
    made = []
    for number in range(2):
        set_seeds(BASE + number)
        be_worker(info, number)
        info.worker_init(number)
        made.append([kept_leaves(info.dataset[index]) for index in indices])
    if not all(alike(one, other) for one, other in zip(*made, strict=True)):
        return None
    set_seeds(BASE)
    return line_of(lambda: info.worker_init(0), streams, outermost=True) or info.built


def fetch_until_it_ends(
    info: LoaderInfo, worker: int, indices: list[Any], patience: float = PATIENCE_SECONDS
) -> Ending:
    """Fetch samples one after the other, in a child process that may die or hang of it."""
    dataset = info.dataset
    if not hasattr(os, "fork") or torch.cuda.is_initialized() or dataset is None:  # type: ignore[no-untyped-call]
        return Ending("unknown")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        be_worker(info, worker)
        _fetch(dataset, indices, writing)
    os.close(writing)
    text, hung = _read(reading, patience)
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = text.decode(errors="replace").splitlines()
    if not hung and status == 0:
        return Ending("went well")
    try:
        index, filename, line = json.loads(next(each for each in reversed(lines) if each.endswith("]")))
    except (StopIteration, ValueError):
        return Ending("hung" if hung else "died")
    statement = statement_at(filename, line)
    value = getattr(statement, "value", None)
    node = value if isinstance(value, ast.expr) else statement
    if isinstance(statement, ast.With):
        node = statement.items[0].context_expr
    return Ending("hung" if hung else "died", index, Spot.of_node(filename, node) if node is not None else None)


def _fetch(dataset: Any, indices: list[Any], writing: int) -> None:
    now: list[Any] = [None]
    try:
        begin_quietly()

        def tell(frame: FrameType, _event: str, _value: Any) -> Any:
            if is_library(frame.f_code.co_filename):
                return None
            if _event == "line":
                os.write(writing, json.dumps([now[0], frame.f_code.co_filename, frame.f_lineno]).encode() + b"\n")
            return tell

        sys.settrace(tell)
        for index in indices:
            now[0] = index if isinstance(index, int | str) else str(index)
            dataset[index]
        sys.settrace(None)
        os._exit(0)
    except SystemExit as leaving:
        # In a worker, too, this ends the process, and nobody hears of it.
        sys.settrace(None)
        site = sites_in(leaving.__traceback__)[0]
        os.write(writing, json.dumps([now[0], site.filename, site.f_lineno]).encode() + b"\n")
        os._exit(1)
    except BaseException:
        # It raised, which is another story than dying.
        os._exit(0)


def _read(reading: int, patience: float) -> tuple[bytes, bool]:
    """What came through the pipe, the end of it; and whether it fell silent without being closed."""
    text = b""
    last = time.monotonic()
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, last + patience - time.monotonic()))
            if not ready:
                return text, True
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                return text, False
            text, last = (text + chunk)[-4096:], time.monotonic()
    finally:
        os.close(reading)
