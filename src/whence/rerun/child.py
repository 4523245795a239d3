"""Run code in a forked child process, where the program's own Python leaves no trace.

This is the only place that forks. The child can read everything and change nothing outside of
itself. The parent waits. Whatever interrupts it, the child has ended when the parent continues.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import pickle
import select
import signal
import stat
import sys
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat, starmap
from multiprocessing.synchronize import Event
from time import monotonic, sleep
from typing import Any, NoReturn, TypeVar

import torch

from whence.rerun.landlock import refuse_writes
from whence.rerun.permission import Need, can_fork, note_loss
from whence.rerun.shared_memory import keep_to_itself
from whence.source.interrupts import HeldSignals, is_signal_due
from whence.tape.native import run_everything, runs_only_torch
from whence.tape.quiet import quiet_warnings
from whence.tape.tape import Call
from whence.torch_internals import do_not_end_workers

T = TypeVar("T")
PATIENCE_SECONDS = 20.0
GRACE_SECONDS = 2.0
"""How long a child may take to end after it has closed its pipe."""
SIGNALS_EVERY = 0.05
"""Seconds between two checks for a signal that is due for the program."""
CHUNK = 1 << 16
PARENT_DEATH_SIGNAL = 1
"""An option of prctl."""


class NotPossible(Exception):
    """No answer from a child process: it may not be forked, it died, or it took too long."""


_is_child = False
"""True in a process that was forked here."""
_may_fork = True
"""False in a child while it must not fork further processes."""

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ACTS = (
    "os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.truncate", "os.link", "os.symlink",
    "os.chmod", "os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.system", "os.exec",
    "os.posix_spawn", "os.spawn", "shutil.", "subprocess.Popen", "socket.connect", "socket.bind",
    "socket.sendto", "socket.sendmsg", "ftplib.", "smtplib.",
)  # fmt: skip


def run_in_child(question: Callable[[], T], patience: float = PATIENCE_SECONDS, *, need: Need) -> T:
    """Answer a question in a forked child and return the answer, which must be plain data.

    If no child may be forked, `need` says in the report what could not be done.
    """
    if _is_child:
        try:
            return question()
        except Exception as error:
            # As in a child of its own, a failure costs only this question.
            raise NotPossible("the question failed") from error

    def answer(writing: int) -> None:
        data = pickle.dumps(question())
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)

    def listen(reading: int) -> bytes:
        deadline = monotonic() + patience
        chunks = []
        while chunk := read_chunk(reading, deadline - monotonic()):
            chunks.append(chunk)
        if chunk is None:
            raise NotPossible("the child took too long, or a signal arrived for the program")
        return b"".join(chunks)

    data, _ = _with_child(answer, listen, need=need)
    try:
        found: T = pickle.loads(data)
    except (EOFError, pickle.UnpicklingError) as error:
        raise NotPossible("the question failed") from error
    return found


def run_where_safe(calls: Iterable[Call], question: Callable[[], T]) -> T:
    """Answer here if repeating these calls runs only PyTorch; otherwise in a child."""
    if all(runs_only_torch(call.func) for call in calls):
        return question()
    return run_in_child(question, need=Need.STEP)


def follow_child(
    live: Callable[[int], None], listen: Callable[[int], T], *, need: Need
) -> tuple[T, int | None]:
    """Run `live` in a forked child, and read its output until `listen` returns.

    Returns what `listen` returns, and the child's exit code, negative for a signal; None if other
    code has reaped the child. In the child, connections to other processes are silent and do not
    close.
    """
    return _with_child(live, listen, need=need, hangs_up=False)


def read_chunk(reading: int, seconds: float) -> bytes | None:
    """Return the next data of a pipe, empty at its end; None after a timeout.

    A signal for the program, whose handler is held back, ends the wait.
    """
    # `select.select` supports no descriptor above 1023.
    poll = select.poll()
    poll.register(reading, select.POLLIN)
    deadline = monotonic() + seconds
    while not poll.poll(min(max(deadline - monotonic(), 0.0), SIGNALS_EVERY) * 1000):
        if monotonic() >= deadline or is_signal_due():
            return None
    return os.read(reading, CHUNK)


@contextlib.contextmanager
def without_further_processes() -> Iterator[None]:
    """Refuse to fork within this context in a child: its processes would outlive it."""
    global _may_fork
    before, _may_fork = _may_fork, False
    try:
        yield
    finally:
        _may_fork = before


@dataclass(slots=True)
class _Child:
    """What must be closed and reaped. Lists, so that each item is handled once."""

    ends: list[int] = field(default_factory=list)
    """Of the pipe: to read from, and to write to."""
    pids: list[int] = field(default_factory=list)
    code: int | None = None

    def end(self, grace: float) -> None:
        """Close the pipe, wait for the child to end or kill it, and reap it."""
        _close_last(self.ends, len(self.ends))
        try:
            while self.pids:
                self._reap(grace)
        except ChildProcessError as error:
            if error.errno != errno.ECHILD:
                # The program's own exception, raised by a signal handler.
                raise
            # Another thread of the program waits for all children, and reaped this one first.
            self.pids.clear()

    def _reap(self, grace: float) -> None:
        deadline = monotonic() + grace
        while True:
            done, status = os.waitpid(self.pids[0], os.WNOHANG)
            if done:
                self.pids.clear()
                self.code = os.waitstatus_to_exitcode(status)
                return
            if monotonic() >= deadline:
                # Not reaped yet, so this is still its process id.
                os.kill(self.pids[0], signal.SIGKILL)
                deadline = float("inf")
            sleep(0.001)


def _with_child(
    live: Callable[[int], None],
    listen: Callable[[int], T],
    *,
    need: Need,
    hangs_up: bool = True,
) -> tuple[T, int | None]:
    """Fork, and listen.

    However this ends, the child is gone and its pipe is closed.
    """
    if (reason := can_fork()) is not None:
        note_loss(need, reason)
        raise NotPossible(f"{need}, because {reason}")
    child = _Child()
    grace = 0.0
    try:
        _fork(child, live, hangs_up)
        heard = listen(child.ends[0])
        # A child at the end of its pipe is exiting by itself, and its exit code counts.
        grace = GRACE_SECONDS if read_chunk(child.ends[0], 0.0) == b"" else 0.0
    except OSError as error:
        # An error without a number is the program's, raised by a signal handler.
        if child.pids or error.errno is None:
            raise
        reason = f"the system refuses another process ({error.strerror})"
        note_loss(need, reason)
        raise NotPossible(f"{need}, because {reason}") from error
    finally:
        try:
            child.end(grace)
        except BaseException:
            # Another signal handler has raised.
            child.end(0.0)
            raise
    return heard, child.code


def _fork(child: _Child, live: Callable[[int], None], hangs_up: bool) -> None:
    """Fork with signals held back, so that the child never runs the program's handlers.

    What C functions return is stored by iterators in C: a signal handler could run between two
    lines of Python, and raise.
    """
    parent = os.getpid()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    # Another thread may receive a signal. Its handler would run in an at-fork callback, which
    # swallows exceptions.
    held = HeldSignals()
    held.hold()
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        child.ends.extend(chain.from_iterable(starmap(os.pipe, [()])))
        with quiet_warnings():
            child.pids.extend(starmap(os.fork, [()]))
        if child.pids[0] == 0:
            try:
                _live(live, child.ends[1], _Beginning(parent, mask, hangs_up))
            finally:
                # Whatever happens, a child must not continue as if it were the program.
                os._exit(1)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        # Handlers that were held back run now, and may raise.
        for number, handler in held.release():
            handler(number, sys._getframe(1))
    _close_last(child.ends, 1)


def _close_last(ends: list[int], count: int) -> None:
    """Close and forget descriptors, without a gap in which a signal handler could run."""
    deque(map(os.close, starmap(ends.pop, repeat((), count))), maxlen=0)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """What a child knows of its parent."""

    parent: int
    mask: set[int]
    hangs_up: bool
    """Whether the other end of a pipe appears closed to the child, or is silent."""


def _live(live: Callable[[int], None], writing: int, beginning: _Beginning) -> NoReturn:
    """Run a child from start to end. No exit handler runs at its end."""
    status = 1
    try:
        complaints = os.dup(2) if "WHENCE_DEBUG" in os.environ else None
        _begin(beginning, kept={writing, complaints})
        try:
            live(writing)
            status = 0
        except BaseException:
            if complaints is not None:
                os.write(complaints, traceback.format_exc().encode())
    finally:
        os._exit(status)


def _begin(beginning: _Beginning, kept: set[int | None]) -> None:
    """Isolate the child from its parent's terminal, files, signals and memory."""
    _end_with(beginning.parent)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, beginning.mask)
    _cut_off(kept, hangs_up=beginning.hangs_up)
    # After their descriptors: a stream that is freed here flushes its buffer.
    sys.stdin, sys.stdout, sys.stderr = io.StringIO(), io.StringIO(), io.StringIO()
    keep_to_itself()
    torch.set_num_threads(1)
    # Events are not files: a loader's iterator that is freed here would end the parent's workers.
    Event.set = lambda _: None  # type: ignore[assignment, method-assign]
    do_not_end_workers()
    torch.save = torch.serialization.save = _save  # type: ignore[assignment]
    global _is_child
    _is_child = True
    run_everything()
    sys.addaudithook(_read_only)
    refuse_writes()


def _end_with(parent: int) -> None:
    """Have the child killed if its parent dies, because then nothing else would end it."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _cut_off(kept: set[int | None], *, hangs_up: bool) -> None:
    """Replace every open file by one that the parent does not share.

    Data from a pipe, a socket or the keyboard arrives once, and belongs to the parent. A regular
    file has one position for parent and child, so it is reopened for reading.
    """
    null = os.open(os.devnull, os.O_RDWR)
    silence = -1 if hangs_up else _silence()
    kept = {*kept, null, silence}
    for number in (0, 1, 2):
        os.dup2(null, number)
    for number in _open_files():
        with contextlib.suppress(OSError):
            mode = os.fstat(number).st_mode
            if number in kept:
                continue
            if stat.S_ISREG(mode):
                _open_again(number, null)
            elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                os.dup2(null if hangs_up else silence, number)
            elif os.isatty(number):
                os.dup2(null, number)


def _silence() -> int:
    """Return a descriptor that never delivers data and never ends."""
    import socket

    ours, theirs = socket.socketpair()
    theirs.detach()
    return ours.detach()


def _open_again(number: int, null: int) -> None:
    position = os.lseek(number, 0, os.SEEK_CUR)
    try:
        reopened = os.open(f"/proc/self/fd/{number}", os.O_RDONLY)
    except OSError:
        os.dup2(null, number)
        return
    os.lseek(reopened, position, os.SEEK_SET)
    os.dup2(reopened, number)
    os.close(reopened)


def _open_files() -> list[int]:
    listed = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    return [int(name) for name in listed if int(name) > 2]


def _read_only(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook: let code that runs a second time read everything and change nothing."""
    if event == "open":
        path, mode, flags = args
        if not isinstance(path, str | bytes) or path in (os.devnull, os.devnull.encode()):
            return
        writes = isinstance(mode, str) and set(mode) & set("wax+")
        if writes or (isinstance(flags, int) and flags & WRITES):
            raise PermissionError(f"{path!r} is not written a second time")
    elif event.startswith("os.kill"):
        if not _is_own(args[0]):
            raise PermissionError("no signal is sent to another process a second time")
    elif event.startswith(ACTS) or (event.startswith("os.fork") and not _may_fork):
        raise PermissionError(f"{event} is not done a second time")


def _is_own(pid: int) -> bool:
    """Return whether a process is this child, or was started by it."""
    if pid == os.getpid():
        return True
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1]) == os.getpid()
    except (OSError, ValueError, IndexError):
        return False


def _save(_obj: Any, file: Any, *args: Any, **kwargs: Any) -> None:
    """Replace `torch.save`, which opens files in C++ where no audit hook sees it."""
    if isinstance(file, str | os.PathLike):
        raise PermissionError(f"{os.fspath(file)!r} is not written a second time")
    _torch_save(_obj, file, *args, **kwargs)


_torch_save = torch.save
