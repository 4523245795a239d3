"""When a child may be forked, that the program cannot notice it, and what its absence costs."""

from __future__ import annotations

import ast
import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from forking import in_child, plain_run, whence_run

from whence.config import UsageError, read_config
from whence.rerun import permission
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need, can_fork, note_loss, take_losses
from whence.source import at_fork
from whence.source.interrupts import HeldSignals, handler_of

SOURCE = Path(__file__).resolve().parent.parent / "src" / "whence"

ask = partial(run_in_child, need=Need.SAMPLES)


@pytest.fixture
def _kept() -> Iterator[None]:
    """Restore signal handlers, at-fork callbacks and losses."""
    handlers = {
        each: signal.getsignal(each) for each in (signal.SIGCHLD, signal.SIGALRM, signal.SIGUSR1)
    }
    lists = at_fork.CALLBACKS
    assert lists is not None
    before = [list(each) for each in lists]
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    for each, callbacks in zip(lists, before, strict=True):
        each[:] = callbacks
    take_losses()


def _open_files() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def test_one_file_forks() -> None:
    def forks(path: Path) -> bool:
        nodes = ast.walk(ast.parse(path.read_text()))
        return any(
            isinstance(each, ast.Attribute) and each.attr in ("fork", "forkpty") for each in nodes
        )

    found = [str(each.relative_to(SOURCE)) for each in sorted(SOURCE.rglob("*.py")) if forks(each)]
    assert found == ["rerun/child.py"]


# The policy


def test_a_child_may_be_forked_here() -> None:
    assert can_fork() is None


@pytest.mark.parametrize("name", ["cuda", "xpu", "mtia"])
def test_no_fork_beside_an_accelerator(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getattr(torch, name), "is_initialized", lambda: True)
    assert can_fork() == f"an accelerator is in use ({name})"


def test_no_fork_beside_an_accelerator_that_others_have_added(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Device:
        @staticmethod
        def is_initialized() -> bool:
            return True

    monkeypatch.setattr(torch, "npu", Device, raising=False)
    monkeypatch.setattr(permission.backend_registration, "_privateuse1_backend_name", "npu")
    assert can_fork() == "an accelerator is in use (npu)"


def test_asking_initialises_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the driver was asked")

    for name in ("is_available", "device_count", "init", "current_device"):
        monkeypatch.setattr(torch.cuda, name, fail)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", fail)
    monkeypatch.setattr(torch.accelerator, "is_available", fail)
    assert can_fork() is None


@pytest.mark.parametrize(
    ("platform", "reason"),
    [("darwin", "forking is not safe on macOS"), ("win32", "this platform cannot fork")],
)
def test_no_fork_on_other_platforms(
    platform: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    assert can_fork() == reason


def test_the_environment_switches_children_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHENCE_NO_CHILD", "1")
    assert can_fork() == "forking is switched off (WHENCE_NO_CHILD)"
    monkeypatch.setenv("WHENCE_NO_CHILD", "0")
    assert can_fork() is None


def test_the_configuration_switches_children_off(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.whence]\nno-child = true\n")
    assert read_config(tmp_path).no_child
    project.write_text("[tool.whence]\nno-child = 1\n")
    with pytest.raises(UsageError, match="no-child in"):
        read_config(tmp_path)


@pytest.mark.usefixtures("_kept")
def test_no_fork_where_the_program_handles_or_ignores_the_signal() -> None:
    signal.signal(signal.SIGCHLD, lambda *_: None)
    assert can_fork() == "the program has set a handler for SIGCHLD"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    assert can_fork() == "the program ignores SIGCHLD"
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    assert can_fork() is None
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        assert can_fork() == "the program has blocked SIGCHLD"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _use_workers() -> None:
    """Have PyTorch set its own handler, as the first loader with workers does."""
    list(torch.utils.data.DataLoader(torch.ones(2, 2), num_workers=1))


def test_the_handler_of_a_loader_is_no_hindrance(tmp_path: Path) -> None:
    def action() -> None:
        _use_workers()
        assert callable(signal.getsignal(signal.SIGCHLD))
        print(can_fork())

    assert in_child(action, cwd=tmp_path).stdout == "None\n"


def test_the_handler_of_a_loader_hides_none_of_the_program(tmp_path: Path) -> None:
    def action() -> None:
        signal.signal(signal.SIGCHLD, lambda *_: None)
        _use_workers()
        print(can_fork())

    assert in_child(action, cwd=tmp_path).stdout == "the program has set a handler for SIGCHLD\n"


class _Callable:
    def __call__(self) -> None: ...

    def method(self) -> None: ...


def _callback() -> None: ...


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("when", ["before", "after_in_parent", "after_in_child"])
@pytest.mark.parametrize(
    ("callback", "name"),
    [
        (_callback, "_callback"),
        (partial(map, _callback), "_callback"),
        (_Callable(), "_Callable"),
        (_Callable().method, "_Callable.method"),
        (_Callable, "_Callable"),
        (threading.Lock().acquire, "lock.acquire"),
    ],
    ids=["function", "partial", "object", "method", "class", "lock"],
)
def test_no_fork_where_the_program_has_an_at_fork_callback(
    when: str, callback: Callable[[], Any], name: str
) -> None:
    os.register_at_fork(**{when: callback})
    reason = can_fork()
    assert reason is not None
    assert reason.startswith("the program has registered an at-fork callback (")
    assert reason.endswith(f"{name})")


@pytest.mark.usefixtures("_kept")
def test_the_callbacks_of_libraries_are_no_hindrance() -> None:
    import random

    os.register_at_fork(before=random.getrandbits, after_in_parent=partial(print, end=""))
    assert can_fork() is None


def test_finding_the_callbacks_leaves_none_behind() -> None:
    assert at_fork.CALLBACKS is not None
    before = [list(each) for each in at_fork.CALLBACKS]
    # Objects that the tests have loaded are frozen, and hidden from the collector.
    gc.unfreeze()
    try:
        found = at_fork._find()
    finally:
        gc.freeze()
    assert found is not None
    assert all(one is other for one, other in zip(found, at_fork.CALLBACKS, strict=True))
    assert [list(each) for each in found] == before


def test_no_fork_where_the_callbacks_cannot_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert at_fork._find() is None, "frozen lists cannot be found"
    monkeypatch.setattr(permission, "CALLBACKS", None)
    assert can_fork() == "the at-fork callbacks of this process cannot be listed"


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_the_callbacks_are_found_on_every_python(version: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(LISTED)
    found = [each for each in _pythons() if each.parent.parent.name.startswith(version + ".")]
    if not found:
        pytest.skip(f"no Python {version} here")
    ran = subprocess.run(
        [found[0], program, SOURCE.parent], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines() == [
        "None",
        "the program has registered an at-fork callback (mine)",
    ]


def _pythons() -> list[Path]:
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return sorted(root.glob("versions/*/bin/python"))


# Plain Pythons have no torch: an empty module replaces it, as only the interpreter matters.
LISTED = """
import logging, os, sys, types
from concurrent.futures import thread
sys.path.insert(0, sys.argv[1])
for name in ("torch", "torch.utils", "torch.utils.backend_registration", "executing"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["torch.utils"].backend_registration = sys.modules["torch.utils.backend_registration"]
from whence.rerun.permission import can_fork
print(can_fork())
def mine(): pass
os.register_at_fork(before=mine)
print(can_fork())
"""


def test_losses_are_told_once_and_together() -> None:
    take_losses()
    for need in (Need.SAMPLES, Need.ITERATION, Need.SAMPLES):
        note_loss(need, "of a test")
    assert take_losses() == [
        "samples could not be fetched again, an iteration of the training loop could not "
        "be run again, because of a test"
    ]
    assert take_losses() == []


# The child


def test_a_child_gets_no_signal_handler_of_the_program(tmp_path: Path) -> None:
    def action() -> None:
        signal.signal(signal.SIGUSR1, lambda *_: print("handled"))
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})

        def look() -> tuple[bool, set[int]]:
            mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
            return signal.getsignal(signal.SIGUSR1) is signal.SIG_DFL, set(map(int, mask))

        print(ask(look) == (True, {int(signal.SIGUSR2)}))
        print(signal.pthread_sigmask(signal.SIG_BLOCK, ()) == {signal.SIGUSR2})

    assert in_child(action, cwd=tmp_path).stdout == "True\nTrue\n"


def test_what_writes_without_python_is_refused_as_well(tmp_path: Path) -> None:
    """`torch.save` opens its file in C++, where no audit hook of Python sees it."""
    kept = tmp_path / "model.pt"
    kept.write_bytes(b"as it was")
    save = torch.save

    def write() -> list[str]:
        raised = []
        for act in (torch.save, save):
            try:
                act({}, kept)
            except Exception as error:
                raised.append(type(error).__name__)
        return raised

    raised = ask(write)
    assert raised[0] == "PermissionError"
    assert kept.read_bytes() == b"as it was" or len(raised) < 2
    if len(raised) < 2:
        pytest.skip("this kernel has no Landlock: only `torch.save` by its name is refused")


def test_a_child_sends_no_signals_to_others() -> None:
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:

        def kill() -> bool:
            try:
                os.kill(other.pid, signal.SIGTERM)
            except PermissionError:
                return True
            return False

        assert ask(kill)
        assert other.poll() is None
    finally:
        other.communicate(b"\n")


def test_a_child_writes_to_no_copy_of_the_screen(tmp_path: Path) -> None:
    def action() -> None:
        print("once", end="")
        held = sys.stdout
        copies = [os.dup(1), os.dup(2)]

        def write() -> None:
            print("twice")
            held.write("twice")
            held.flush()
            for each in copies:
                os.write(each, b"twice")

        with pytest.raises(NotPossible):
            ask(write)

    ran = in_child(action, cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("once", "")


def test_a_child_dies_with_its_parent(tmp_path: Path) -> None:
    def die() -> None:
        while not (found := _children()):
            time.sleep(0.01)
        (tmp_path / "child").write_text(found[0])
        os.kill(os.getpid(), signal.SIGKILL)

    def action() -> None:
        threading.Thread(target=die).start()
        ask(lambda: time.sleep(60), 60)

    assert in_child(action, cwd=tmp_path).code == -signal.SIGKILL
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 30
    while _lives(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _lives(child)


def _children() -> list[str]:
    return [
        pid
        for each in Path("/proc/self/task").glob("*/children")
        for pid in each.read_text().split()
    ]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


# The parent


def _limits() -> list[Any]:
    """Each raises an exception that a careless `except` would catch."""
    return [
        pytest.param(kind, id=kind.__name__)
        for kind in (KeyboardInterrupt, TimeoutError, ChildProcessError, RuntimeError, SystemExit)
    ]


@pytest.mark.usefixtures("_kept")
@pytest.mark.parametrize("kind", _limits())
def test_what_a_signal_handler_raises_reaches_the_program(kind: type[BaseException]) -> None:
    raised = kind("the program's own")

    def limit(*_: Any) -> None:
        raise raised

    signal.signal(signal.SIGALRM, limit)
    files = _open_files()
    with pytest.raises(kind) as caught:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        ask(lambda: time.sleep(60))
    assert caught.value is raised
    assert not _has_children()
    assert _open_files() == files


@pytest.mark.usefixtures("_kept")
def test_a_signal_at_any_moment_leaves_nothing_behind() -> None:
    """At every moment around the fork, neither the child nor the exception may be lost."""
    fired = []

    def limit(*_: Any) -> None:
        fired.append(1)
        raise TimeoutError

    signal.signal(signal.SIGALRM, limit)
    ask(os.getpid)
    files, mask = _open_files(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    caught = 0
    for number in range(60):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.00002 + 0.0001 * number)
            ask(partial(time.sleep, 0.02))
            signal.setitimer(signal.ITIMER_REAL, 0)
        except TimeoutError:
            caught += 1
    assert caught == len(fired) > 0
    assert not _has_children()
    assert (_open_files(), signal.pthread_sigmask(signal.SIG_BLOCK, ())) == (files, mask)


@pytest.mark.usefixtures("_kept")
def test_a_handler_that_is_held_back_ends_the_waiting() -> None:
    """The program's handlers wait while Whence is at work, but not as long as a child may take."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    held = HeldSignals()
    held.hold()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(NotPossible, match="a signal arrived"):
            ask(partial(time.sleep, 600), 600)
        assert not _has_children()
    finally:
        due = held.release()
    assert [number for number, _ in due] == [signal.SIGALRM]


@pytest.mark.usefixtures("_kept")
def test_a_handler_that_is_held_back_is_seen() -> None:
    def handler(*_: Any) -> None: ...

    signal.signal(signal.SIGCHLD, handler)
    holders = HeldSignals(), HeldSignals()
    for each in holders:
        each.hold()
    try:
        assert handler_of(signal.SIGCHLD) is handler
        assert can_fork() == "the program has set a handler for SIGCHLD"
    finally:
        for each in reversed(holders):
            each.release()


def test_the_held_handler_of_a_loader_is_no_hindrance(tmp_path: Path) -> None:
    def action() -> None:
        _use_workers()
        HeldSignals().hold()
        print(can_fork(), ask(lambda: "answer"))

    assert in_child(action, cwd=tmp_path).stdout == "None answer\n"


def _raise() -> None:
    raise ValueError


@pytest.mark.parametrize(
    ("question", "patience", "said"),
    [
        (partial(time.sleep, 60), 0.2, "took too long"),
        (_raise, 20, "failed"),
        (partial(os._exit, 0), 20, "failed"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), 20, "failed"),
        (lambda: os.closerange(3, 1000) or time.sleep(60), 20, "failed"),
    ],
    ids=["hangs", "raises", "exits", "is killed", "hangs up and hangs"],
)
def test_a_child_without_an_answer_is_ended(
    question: Callable[[], Any], patience: float, said: str
) -> None:
    files = _open_files()
    with pytest.raises(NotPossible, match=said):
        ask(question, patience)
    assert not _has_children()
    assert _open_files() == files


def test_a_program_that_reaps_all_children_takes_no_answer(tmp_path: Path) -> None:
    def action() -> None:
        reaped = []

        def reap() -> None:
            while True:
                try:
                    reaped.append(os.wait())
                except ChildProcessError:
                    time.sleep(0.001)

        threading.Thread(target=reap, daemon=True).start()
        answers = [ask(lambda: time.sleep(0.1) or "answer") for _ in range(5)]
        print(answers == ["answer"] * 5, len(reaped) > 0)

    assert in_child(action, cwd=tmp_path).stdout == "True True\n"


def test_a_system_without_room_for_a_process_costs_the_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    take_losses()
    files = _open_files()
    monkeypatch.setattr(os, "fork", refuse)
    with pytest.raises(NotPossible):
        ask(os.getpid)
    assert _open_files() == files
    assert take_losses() == [
        "samples could not be fetched again, "
        "because the system refuses another process (Resource temporarily unavailable)"
    ]


def test_descriptors_above_a_thousand_are_listened_to(tmp_path: Path) -> None:
    def action() -> None:
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096) if most > 0 else 4096, most))
        held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1200)]
        print(ask(lambda: "answer"), len(held))

    assert in_child(action, cwd=tmp_path).stdout == "answer 1200\n"


# A whole program

PROGRAM = """
import os, signal, sys
import numpy as np, torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

calls = []
{setup}

class Rows(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        return np.full(4, index / 16), index % 2

model = nn.Linear(4, 2)
try:
    for x, y in DataLoader(Rows(), batch_size=4):
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
except RuntimeError as error:
    print(error)
print(len(calls), "calls")
"""

SETUPS = {
    "a handler for SIGCHLD": "signal.signal(signal.SIGCHLD, lambda *_: calls.append(1))",
    "ignores SIGCHLD": "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",
    "an at-fork callback": "os.register_at_fork(before=lambda: calls.append(1))",
    "at-fork callback (Counter.count)": (
        "class Counter:\n    def count(self): calls.append(1)\n"
        "os.register_at_fork(after_in_parent=Counter().count)"
    ),
}


def test_the_program_needs_a_child(tmp_path: Path) -> None:
    """Without this the tests below could not fail: only a child finds the line of the dataset."""
    ran = _whence(tmp_path, "")
    (found,) = ran.loud
    assert found["rule"] == "dtype/float64-input"
    assert "np.full" in found["origin"]["code"]
    assert "further back" not in found["why"]
    assert ran.document["not_watched"] == []


@pytest.mark.parametrize("reason", SETUPS)
def test_the_program_does_not_notice_children(reason: str, tmp_path: Path) -> None:
    ran = _whence(tmp_path, SETUPS[reason])
    assert ran.stdout == plain_run(tmp_path / "program.py", cwd=tmp_path).stdout
    assert "0 calls" in ran.stdout
    (found,) = ran.loud
    assert (found["rule"], found["severity"]) == ("dtype/float64-input", "error")
    assert (
        "The origin may be further back: samples could not be fetched again, because"
        in found["why"]
    )
    (said,) = ran.document["not_watched"]
    assert said.startswith("samples could not be fetched again, ")
    assert reason in said
    assert said in " ".join(ran.stderr.split())


def _whence(folder: Path, setup: str, *options: str) -> Any:
    (folder / "program.py").write_text(PROGRAM.format(setup=setup))
    return whence_run(folder / "program.py", *options, cwd=folder)
