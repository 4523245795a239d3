"""What became of a worker: its samples are fetched again in a child process that tells each line before it runs it."""

from __future__ import annotations

import ast
import json
import os
import pickle
import sys
from dataclasses import dataclass
from itertools import islice
from time import monotonic
from types import FrameType
from typing import Any

from whence.lineage.datasets.asking import alike, kept_leaves, line_of, streams
from whence.lineage.datasets.seeding import set_seeds
from whence.rerun.child import NotPossible, follow_child, read_chunk
from whence.rerun.permission import Need
from whence.source.sites import is_library, sites_in
from whence.source.spots import Spot
from whence.source.text import statement_at
from whence.tape.batches import LoaderInfo
from whence.torch_internals import ExceptionWrapper, become_worker, numpy_seed_of_worker

PATIENCE_SECONDS = 4.0
LONGEST_SECONDS = 12.0
MOST_STREAMED = 5_000
RAISED = 3
"""The exit code of a child in which something was raised that a worker's program does not hear of."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How fetching a worker's samples again went: the sample it ended at, and the line that was running."""

    how: str
    """died, hung, raised, or went well."""
    index: Any = None
    spot: Spot | None = None
    raised: str = ""
    """What it raised: while its copy of the dataset was made, which ends it, or something that cannot be sent home, so that it hangs."""


def be_worker(info: LoaderInfo, number: int | None, *, other: int = 0) -> None:
    """Only ever in a child process: begin as a worker began. A dataset that asks which one it is in hears what it heard there.

    `other` gives it other random numbers.
    """
    if number is None:
        return
    base = info.seed + other * info.workers
    seed = base + number
    set_seeds(seed)
    become_worker(number, workers=info.workers, seed=seed, dataset=info.dataset)
    if (numpy := sys.modules.get("numpy")) is not None:
        state = numpy_seed_of_worker(base, number)
        if state is not None:
            numpy.random.seed(state)
    if info.worker_init is not None:
        info.worker_init(number)


def alike_in_workers(info: LoaderInfo, indices: list[Any]) -> Spot | None:
    """Where the program's own function for a worker's beginning makes all workers draw the same numbers.

    Only ever in a child process: it becomes one worker after the other, as torch seeds them, and asks for the same samples.
    """
    made = []
    for number in range(2):
        be_worker(info, number)
        made.append([kept_leaves(info.dataset[index]) for index in indices])
    if not all(alike(one, other) for one, other in zip(*made, strict=True)):
        return None
    set_seeds(info.seed)
    return line_of(lambda: info.worker_init(0), streams, outermost=True) or info.built


def fetch_until_it_ends(
    info: LoaderInfo, worker: int, indices: list[Any], patience: float = PATIENCE_SECONDS
) -> Ending:
    """Fetch samples one after the other, in a child process that may die or hang of it."""
    if info.dataset is None:
        return Ending("unknown")
    try:
        (text, hung), code = follow_child(
            lambda writing: _live(info, worker, indices, writing),
            lambda reading: _read(reading, patience),
            need=Need.SAMPLES,
        )
    except NotPossible:
        return Ending("unknown")
    lines = text.decode(errors="replace").splitlines()
    if not hung and code == 0:
        return Ending("went well")
    how = "hung" if hung else "raised" if code == RAISED else "died"
    try:
        index, filename, line, raised = json.loads(
            next(each for each in reversed(lines) if each.endswith("]"))
        )
    except (StopIteration, ValueError):
        return Ending(how)
    return Ending(how, index, spot_at_line(filename, line), raised)


def spot_at_line(filename: str, line: int) -> Spot | None:
    """What a line of the program does: its expression, where it is no more than one."""
    statement = statement_at(filename, line)
    value = getattr(statement, "value", None)
    node = value if isinstance(value, ast.expr) else statement
    if isinstance(statement, ast.With):
        node = statement.items[0].context_expr
    return Spot.of_node(filename, node) if node is not None else None


def _live(info: LoaderInfo, worker: int, indices: list[Any], writing: int) -> None:
    """The life of a worker, from its copy of the dataset on: each line is told before it is run."""
    now: list[Any] = [None]
    copied = False

    def say(filename: str, line: int, raised: str = "") -> None:
        os.write(writing, json.dumps([now[0], filename, line, raised]).encode() + b"\n")

    def tell(frame: FrameType, event: str, _value: Any) -> Any:
        if is_library(frame.f_code.co_filename):
            return None
        if event == "line":
            say(frame.f_code.co_filename, frame.f_lineno)
        return tell

    try:
        sys.settrace(tell)
        dataset = pickle.loads(pickle.dumps(info.dataset)) if info.copies else info.dataset
        copied = True
        be_worker(info, worker)
        for index in indices:
            now[0] = index if isinstance(index, int | str) else str(index)
            dataset[index]
        for number, _ in enumerate(islice(dataset, MOST_STREAMED) if info.is_iterable else ()):
            now[0] = number + 1
        sys.settrace(None)
        os._exit(0)
    except BaseException as error:
        sys.settrace(None)
        sites = sites_in(error.__traceback__)
        # In a worker, too, the first ends the process, and nobody hears of it.
        ends = isinstance(error, SystemExit)
        raises = isinstance(error, Exception) and (not copied or not _can_be_sent(error))
        if sites and (ends or raises):
            say(sites[0].filename, sites[0].f_lineno, "" if ends else type(error).__name__)
        # What raises and is heard is another story than dying.
        os._exit(1 if ends else RAISED if raises else 0)


def _can_be_sent(error: Exception) -> bool:
    try:
        pickle.dumps(ExceptionWrapper((type(error), error, error.__traceback__)))
    except Exception:
        return False
    return True


def _read(reading: int, patience: float) -> tuple[bytes, bool]:
    """Return the end of what came through the pipe, and whether the child hangs or goes round and round."""
    text = b""
    began = last = monotonic()
    while True:
        deadline = min(last + patience, began + LONGEST_SECONDS)
        chunk = read_chunk(reading, deadline - monotonic())
        if chunk is None or monotonic() > began + LONGEST_SECONDS:
            return text, True
        if not chunk:
            return text, False
        text, last = (text + chunk)[-4096:], monotonic()
