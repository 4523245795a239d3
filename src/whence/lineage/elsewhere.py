"""Run something in a forked child and have its answer: the program's own code may run there without any trace here."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import select
import signal
import stat
import sys
import time
import traceback
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Any, TypeVar

import torch
from torch.utils.data.dataloader import _MultiProcessingDataLoaderIter

from whence.lineage.mappings import keep_to_itself
from whence.tape.quiet import quiet_warnings

T = TypeVar("T")
PATIENCE_SECONDS = 20.0


class NotPossible(Exception):
    """No answer: this platform has no fork, a GPU is in use, or the child died or took too long."""


_is_child = False
"""True in a process that was made to be asked."""

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ACTS = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink", "os.system", "os.exec",
    "os.posix_spawn", "os.spawn", "shutil.", "subprocess.Popen", "socket.connect", "socket.bind", "ftplib.", "smtplib.",
)  # fmt: skip


def run_elsewhere(question: Callable[[], T], patience: float = PATIENCE_SECONDS) -> T:
    """Fork as a DataLoader worker would, ask there, and bring back the answer (plain data) through a pipe."""
    if _is_child:
        try:
            return question()
        except Exception as error:
            # As it would be in a child of its own: one question less is answered, and not all of them.
            raise NotPossible("asking again failed") from error
    if not hasattr(os, "fork") or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise NotPossible("no fork here")
    reading, writing = os.pipe()
    with quiet_warnings():
        child = os.fork()
    if child == 0:
        _answer(question, writing)
    os.close(writing)
    return _listen(child, reading, patience)


def _answer(question: Callable[[], T], writing: int) -> None:
    status = 1
    try:
        complaints = os.dup(2)
        begin_quietly()
        _cut_off(writing)
        data = pickle.dumps(question())
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)
        status = 0
    except BaseException:
        if "WHENCE_DEBUG" in os.environ:
            os.write(complaints, traceback.format_exc().encode())
    finally:
        os._exit(status)


def begin_quietly() -> None:
    """The first thing that a child does: nothing of it is to reach the screen, the files or the terminal's signals."""
    with contextlib.suppress(ValueError):
        # Only the main thread may.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    # What the program prints while it is asked again must not reach the screen a second time.
    sys.stdout = sys.stderr = io.StringIO()
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    _keep_places()
    keep_to_itself()
    torch.set_num_threads(1)
    global _is_child
    _is_child = True
    sys.addaudithook(_only_look)


def _cut_off(answer: int) -> None:
    """What comes through a pipe, a socket or the keyboard comes once, and who listens there takes no joke: it is the parent's."""
    nobody = os.open(os.devnull, os.O_RDWR)
    os.dup2(nobody, 0)
    sys.stdin = io.StringIO()
    for number in _open_files():
        with contextlib.suppress(OSError):
            mode = os.fstat(number).st_mode
            if number != answer and (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
                os.dup2(nobody, number)
    # Events are no files: a loader's iterator that is let go here would send the parent's workers home.
    Event.set = _MultiProcessingDataLoaderIter._shutdown_workers = lambda _: None  # type: ignore[assignment, method-assign]


def _open_files() -> list[int]:
    return (
        [int(name) for name in os.listdir("/proc/self/fd") if int(name) > 2] if os.path.isdir("/proc/self/fd") else []
    )


def _only_look(event: str, args: tuple[Any, ...]) -> None:
    """Code of the program that runs a second time finds a world that it can read and not change."""
    if event == "open" and isinstance(args[0], str | bytes) and args[0] not in (os.devnull, os.devnull.encode()):
        mode, flags = args[1], args[2]
        if (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & WRITES):
            raise PermissionError(f"{args[0]!r} is not written a second time")
    elif event.startswith(ACTS):
        raise PermissionError(f"{event} is not done a second time")


def _keep_places() -> None:
    """Files that are open have one place for parent and child: open them anew here, to read, at the same place."""
    for number in _open_files():
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(number).st_mode):
                place = os.lseek(number, 0, os.SEEK_CUR)
                anew = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
                os.lseek(anew, place, os.SEEK_SET)
                os.dup2(anew, number)
                os.close(anew)


def _listen(child: int, reading: int, patience: float) -> T:  # type: ignore[type-var]
    deadline = time.monotonic() + patience
    chunks: list[bytes] = []
    try:
        while True:
            ready, _, _ = select.select([reading], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                os.kill(child, signal.SIGKILL)
                raise NotPossible("the sample took too long")
            chunk = os.read(reading, 1 << 16)
            if not chunk:
                break
            chunks.append(chunk)
    finally:
        os.close(reading)
        os.waitpid(child, 0)
    if not chunks:
        raise NotPossible("asking again failed")
    answer: T = pickle.loads(b"".join(chunks))
    return answer
