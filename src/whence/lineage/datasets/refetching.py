"""A batch that could not be fetched, made again as it was asked for: how far that comes, and what is raised on the way.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from itertools import islice
from types import FrameType
from typing import Any

from whence.lineage.datasets.courses import Course
from whence.lineage.datasets.samples import MOST_SAMPLES, returning_frames
from whence.lineage.datasets.workers import be_worker
from whence.source.sites import frames_in, is_library, variable
from whence.tape.batches import LoaderInfo
from whence.tape.failed import Fetching, Raised, Stage
from whence.tape.randomness import Kept, restore
from whence.torch_internals import FETCH_FILE, ExceptionWrapper

MOST_BATCHES = 5_000
FRAME = re.compile(
    r'^  File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE
)
HEAD = "Traceback (most recent call last):"

Kinds = tuple[type[BaseException], ...]
Recording = Callable[[], AbstractContextManager[None]]


def wrapped_in(exception: BaseException) -> Any:
    """What a worker sent home in place of a batch, if that is where an exception comes from."""
    held = (
        variable(each, "self") for each in frames_in(exception.__traceback__) if _is_reraise(each)
    )
    return next((each for each in held if isinstance(each, ExceptionWrapper)), None)


def _is_reraise(frame: FrameType) -> bool:
    return frame.f_code is ExceptionWrapper.reraise.__code__


def kinds_of(exception: BaseException) -> Kinds:
    """What must be raised again. A worker's exception comes home as another one, where it cannot be built from its text."""
    wrapped = wrapped_in(exception)
    return (
        (wrapped.exc_type,)
        if wrapped is not None and wrapped.exc_type is not None
        else (type(exception),)
    )


def raised_in_worker(exception: BaseException) -> Raised | None:
    """Where in a worker something was raised: its traceback comes as text, and no other trace is left of it."""
    wrapped = wrapped_in(exception)
    if wrapped is None or wrapped.exc_type is None:
        return None
    last = wrapped.exc_msg[wrapped.exc_msg.rindex(HEAD) :] if HEAD in wrapped.exc_msg else ""
    lines = [(each["file"], int(each["line"]), each["function"]) for each in FRAME.finditer(last)]
    own = [each for each in lines if not is_library(each[0])]
    filename, line = own[-1][:2] if own else ("", 0)
    text = last.rstrip().splitlines()[-1] if last else ""
    return Raised(wrapped.exc_type.__name__, text, _stage(lines), filename, line)


def _stage(lines: list[tuple[str, int, str]]) -> Stage:
    fetching = [function for file, _, function in lines if file == FETCH_FILE]
    if not fetching:
        return Stage.BEGINNING
    if "fetch" not in fetching:
        return Stage.OPENING
    inside = lines[max(number for number, each in enumerate(lines) if each[0] == FETCH_FILE) + 1 :]
    makers = ("__getitem__", "__getitems__", "__iter__", "__next__")
    return Stage.MAKING if not inside or inside[0][2] in makers else Stage.COLLATING


def make_again(
    fetching: Fetching, kinds: Kinds, streams: Kept, record: Recording, *, other: int = 0
) -> None:
    """Fetch the samples and put them together, as a worker does where it was one. What is raised leaves it at its stage."""
    info = fetching.info
    _begin(fetching, kinds, other)
    restore(streams)
    fetching.stage = Stage.OPENING
    reading = _opened(info, fetching) if info.is_iterable else None
    if not info.is_iterable or fetching.indices[0]:
        # A stream that has not given anything yet is still being opened.
        fetching.stage = Stage.MAKING
    with record():
        for index in fetching.indices:
            made: list[tuple[FrameType, Any]] = []
            course = Course()
            fetching.returns.append(made)
            fetching.courses.append(course)
            with returning_frames(made, fetching.callers), course.followed():
                sample = next(reading, _END) if reading is not None else info.dataset[index]
            if sample is _END:
                break
            fetching.samples.append(sample)
            fetching.stage = Stage.MAKING
        fetching.stage = Stage.COLLATING
        info.collated(fetching.samples)


_END = object()


def _begin(fetching: Fetching, kinds: Kinds, other: int = 0) -> None:
    try:
        be_worker(fetching.info, fetching.worker, other=other)
    except Exception as error:
        # What only fails here, as nothing may be written or connected to, did not fail there.
        if isinstance(error, kinds):
            raise


def _opened(info: LoaderInfo, fetching: Fetching) -> Iterator[Any]:
    """A stream from its beginning, past what comes before the samples that are asked for."""
    reading: Iterator[Any] = iter(info.dataset)
    for _ in islice(reading, fetching.indices[0]):
        pass
    return reading


def stuck_at(info: LoaderInfo, worker: int | None, kinds: Kinds) -> list[int] | None:
    """The numbers of those samples of a stream that come no further, read from its beginning; None if all goes well."""
    fetching = Fetching(info, [0], worker)
    size = (info.batch_size or 1) if info.batched else 1
    done = 0
    try:
        _begin(fetching, kinds)
        reading = iter(info.dataset)
        for _ in range(MOST_BATCHES):
            samples = list(islice(reading, size))
            if not samples:
                return None
            info.collated(samples)
            done += len(samples)
    except Exception as error:
        return (
            list(range(done, done + min(size, MOST_SAMPLES))) if isinstance(error, kinds) else None
        )
    return None
