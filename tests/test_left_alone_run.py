"""A run that reports leaves stderr, stdout, signals, threads, forks and the program's end alone."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch._dynamo  # noqa: F401  or each forked child would import it
from forking import Ran, in_child, plain_run, whence_run

import whence
from whence.cli import main

RULE = "shape/linear-features"
CAUGHT = """
import torch
try:
    torch.nn.Linear(4, 2)(torch.ones(3, 5))
except RuntimeError:
    pass
torch.ones(2) + 1
"""
TRAINING = """
import torch
from torch import nn
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def step():
    optimizer.zero_grad()
    model(torch.randn(8, 4)).pow(2).mean().backward()
    optimizer.step()
"""


def write(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.write_text(dedent(text))
    return path


def watched(folder: Path, text: str, *options: str) -> Ran:
    return whence_run(write(folder, text), *options, cwd=folder)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "whence", *words]


def process(*words: str, cwd: Path, **settings: Any) -> subprocess.CompletedProcess[str]:
    """Run `whence` in its own process."""
    return subprocess.run(
        command(*words), cwd=cwd, capture_output=True, text=True, timeout=100, **settings
    )


@contextmanager
def started(*words: str, cwd: Path, **settings: Any) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(command(*words), cwd=cwd, text=True, **settings)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def wait_for(question: Callable[[], Any], seconds: float = 90) -> Any:
    until = time.monotonic() + seconds
    while not (answer := question()):
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)
    return answer


def document_in(folder: Path) -> dict[str, Any]:
    found = sorted(folder.glob(".whence/*/findings.json"))
    return json.loads(found[-1].read_text()) if found else {}


# where findings are printed


def test_findings_do_not_reach_a_stderr_that_the_program_has_replaced(tmp_path: Path) -> None:
    ran = watched(
        tmp_path,
        "import io, sys\nsys.stderr = io.StringIO()\n"
        + CAUGHT
        + "print(repr(sys.stderr.getvalue()))",
    )
    assert (ran.code, ran.stdout) == (0, "''\n")
    assert RULE in ran.stderr
    assert "nothing" not in ran.stderr.splitlines()[-1]


def test_findings_do_not_reach_stdout_where_the_program_sends_stderr_there(tmp_path: Path) -> None:
    ran = watched(
        tmp_path,
        "import sys\nsys.stderr = sys.stdout\n" + CAUGHT + "print('a warning', file=sys.stderr)",
    )
    assert (ran.code, ran.stdout) == (0, "a warning\n")
    assert RULE in ran.stderr


def test_findings_do_not_reach_the_files_that_descriptor_2_is_turned_to(tmp_path: Path) -> None:
    turn = "import os\nlog = os.open('log', os.O_WRONLY | os.O_CREAT)\nos.dup2(log, 2)\n"
    ran = watched(tmp_path, turn + CAUGHT)
    assert RULE in ran.stderr
    assert (tmp_path / "log").read_text() == ""


def test_the_programs_traceback_goes_where_python_sends_it(tmp_path: Path) -> None:
    ran = watched(
        tmp_path,
        "import sys\nsys.stderr = open('log', 'w')\n" + CAUGHT + "raise ValueError('its own')",
    )
    assert ran.code == 1
    assert (tmp_path / "log").read_text().endswith("ValueError: its own\n")
    assert "ValueError" not in ran.stderr
    assert RULE in ran.stderr


def test_findings_are_not_captured_by_pytest(tmp_path: Path) -> None:
    body = "\n".join(f"    {line}" for line in CAUGHT.splitlines())
    tests = f"def test_fd(capfd):\n{body}\n    assert capfd.readouterr() == ('', '')\n"
    tests += f"def test_sys(capsys):\n{body}\n    assert capsys.readouterr() == ('', '')\n"
    write(tmp_path, tests, "test_it.py")
    ran = process("run", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout
    assert RULE in ran.stderr
    assert RULE not in ran.stdout


def test_a_new_descriptor_has_the_number_that_it_has_without_the_watch(tmp_path: Path) -> None:
    script = write(
        tmp_path, "import os\nprint(os.dup(1), os.dup(1))\n" + CAUGHT + "print(os.dup(1))"
    )
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    ran = process("run", "train.py", cwd=tmp_path)
    assert ran.stdout == plain.stdout
    assert RULE in ran.stderr


def test_a_file_that_gets_our_descriptors_number_is_not_written_to(tmp_path: Path) -> None:
    takes = "import os\nos.closerange(2, 4096)\nfiles = [open('taken', 'w') for _ in range(400)]\n"
    ran = watched(tmp_path, takes + CAUGHT + "print('done')")
    assert (ran.code, ran.stdout) == (0, "done\n")
    assert (tmp_path / "taken").read_text() == ""
    assert len(ran.findings) == 1


def test_a_stderr_that_nobody_reads_does_not_end_a_program_that_lets_pipes_end_it(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        "import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n" + CAUGHT + "print('done')",
    )
    reading, writing = os.pipe()
    os.close(reading)
    with started("run", "train.py", cwd=tmp_path, stdout=subprocess.PIPE, stderr=writing) as child:
        os.close(writing)
        assert child.communicate(timeout=60) == ("done\n", None)
        assert child.returncode == 0
    assert len(document_in(tmp_path)["findings"]) == 1


def test_a_stderr_that_is_full_does_not_stop_the_program(tmp_path: Path) -> None:
    fill = "import os, fcntl\nfcntl.fcntl(2, fcntl.F_SETPIPE_SZ, 4096)\nos.set_blocking(2, False)\n"
    fill += (
        "try:\n    while True: os.write(2, b'x' * 512)\n"
        "except BlockingIOError: os.set_blocking(2, True)\n"
    )
    write(tmp_path, fill + CAUGHT + "print('done')")
    with started(
        "run", "train.py", cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "done\n"
        assert child.wait(timeout=60) == 0


def test_a_notebooks_own_stderr_is_used_within_ipython(tmp_path: Path) -> None:
    def body() -> None:
        import io
        from types import ModuleType

        shell = ModuleType("IPython")
        shell.get_ipython = lambda: object()  # type: ignore[attr-defined]
        sys.modules["IPython"] = shell
        notebook = sys.stderr = io.StringIO()
        with whence.watch():
            exec(CAUGHT, {})
        print(RULE in notebook.getvalue(), "1 finding" in notebook.getvalue())

    ran = in_child(body, cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("True True\n", "")


# signals


def test_no_handler_for_sigterm_is_added(tmp_path: Path) -> None:
    script = write(
        tmp_path, "import signal\nprint(signal.getsignal(signal.SIGTERM))\n" + TRAINING + "step()"
    )
    assert whence_run(script, cwd=tmp_path).stdout == plain_run(script, cwd=tmp_path).stdout


BLOCKED = """
import ctypes
libc = ctypes.CDLL(None)
mutex = ctypes.create_string_buffer(128)
libc.pthread_mutex_init(mutex, None)
print("blocked", flush=True)
libc.pthread_mutex_lock(mutex)
libc.pthread_mutex_lock(mutex)
"""


def test_a_process_that_is_blocked_in_c_dies_of_sigterm_at_once(tmp_path: Path) -> None:
    write(tmp_path, BLOCKED)
    with started("run", "train.py", cwd=tmp_path, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.terminate()
        assert child.wait(timeout=20) == -signal.SIGTERM


def test_a_signal_that_the_program_waits_for_is_not_delivered_to_our_thread(tmp_path: Path) -> None:
    waits = """
import os, signal
for _ in range(3): step()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
os.kill(os.getpid(), signal.SIGUSR1)
print(signal.sigtimedwait({signal.SIGUSR1}, 5) is not None)
"""
    ran = watched(tmp_path, TRAINING + waits)
    assert (ran.code, ran.stdout) == (0, "True\n")


# killed runs

ENDLESS = """
import time
while True:
    step()
    print("step", flush=True)
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that was killed after some steps were on disk."""
    folder = tmp_path_factory.mktemp("killed")
    write(folder, TRAINING + ENDLESS)
    with started(
        "run", "--json", "copy.json", "train.py", cwd=folder, stdout=subprocess.DEVNULL
    ) as child:
        wait_for(lambda: document_in(folder).get("steps"))
        child.kill()
        child.wait()
    return folder


def test_a_killed_run_has_its_steps_and_what_the_watch_cost(killed: Path) -> None:
    document = document_in(killed)
    assert document["steps"] > 0
    assert document["overhead"]["seconds"] > 0
    assert document["finished"] is False
    assert document["outcome"] == {"exit_code": None, "exception": None}


def test_the_copy_behind_json_is_up_to_date_after_a_kill(killed: Path) -> None:
    assert json.loads((killed / "copy.json").read_text())["steps"] > 0


def test_report_says_how_far_a_killed_run_came(killed: Path) -> None:
    ran = in_child(lambda: main(["report"]), cwd=killed)
    steps = document_in(killed)["steps"]
    (last,) = ran.stdout.splitlines()[-1:]
    assert f"the run did not finish: killed or still running; {steps} step" in last
    assert "watched" in last
    assert "no training step" not in ran.stdout


def test_a_run_that_is_killed_by_its_own_exit_is_not_finished(tmp_path: Path) -> None:
    ran = watched(tmp_path, TRAINING + "step()\nimport os\nos._exit(0)")
    assert ran.document["finished"] is False


def test_a_watch_that_is_closed_is_finished(tmp_path: Path) -> None:
    in_child(lambda: whence.watch().close(), cwd=tmp_path)
    assert document_in(tmp_path)["finished"] is True


def test_the_summary_is_the_last_line_also_behind_what_was_not_watched() -> None:
    from whence.finding import Report
    from whence.report.terminal import render_summary

    lines = [
        str(each)
        for each in render_summary(Report(steps=3, not_watched=("a", "b"), finished=True), "folder")
    ]
    assert lines[-1].startswith("whence 3 steps watched")
    assert len(lines) == 3


# where the record goes


def test_a_json_path_that_cannot_be_written_is_refused_before_the_program_starts(
    tmp_path: Path,
) -> None:
    write(tmp_path, "open('started', 'w')")
    ran = in_child(lambda: main(["run", "--json", "/proc/findings.json", "train.py"]), cwd=tmp_path)
    assert (ran.code, ran.stderr.count("\n")) == (2, 1)
    assert "/proc/findings.json" in ran.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["train.py"]


def test_json_to_a_descriptor_of_its_own_is_nothing_but_json(tmp_path: Path) -> None:
    write(tmp_path, "import os\nos.write(1, b'raw')\nprint('printed')")
    words = " ".join(command("run", "--json", "/dev/fd/3", "train.py"))
    ran = subprocess.run(
        f"{words} 3>&1 >out 2>err",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert json.loads(ran.stdout) == document_in(tmp_path)
    assert (tmp_path / "out").read_text() == "rawprinted\n"


def test_a_working_directory_that_cannot_be_written_does_not_stop_the_program(
    tmp_path: Path,
) -> None:
    script = write(tmp_path, "print('done')\nraise SystemExit(3)")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ran = process("run", str(script), cwd=Path("/proc"), env=environment)
    assert (ran.returncode, ran.stdout) == (3, "done\n")
    (folder,) = (each for each in tmp_path.iterdir() if each.is_dir())
    assert json.loads((folder / "findings.json").read_text())["outcome"]["exit_code"] == 3
    assert ran.stderr.splitlines()[-1].endswith(str(folder))


def test_a_file_in_the_place_of_the_run_folders_does_not_stop_the_program(tmp_path: Path) -> None:
    (tmp_path / ".whence").write_text("")
    ran = watched(tmp_path, "print('done')")
    assert (ran.code, ran.stdout) == (0, "done\n")
    assert (tmp_path / ".whence").read_text() == ""


def test_without_any_folder_to_write_to_the_program_runs_and_the_summary_says_so(
    tmp_path: Path,
) -> None:
    def body() -> None:
        import tempfile

        tempfile.tempdir = "/proc"
        os.chdir("/proc")
        main(["run", "-c", "print('done')"])

    ran = in_child(body, cwd=tmp_path)
    assert (ran.code, ran.stdout) == (0, "done\n")
    assert "neither the working directory nor the temporary directory" in ran.stderr


def test_git_ignores_the_run_folders(tmp_path: Path) -> None:
    watched(tmp_path, "pass")
    assert (tmp_path / ".whence" / ".gitignore").read_text() == "*\n"
    (tmp_path / ".whence" / ".gitignore").write_text("mine\n")
    watched(tmp_path, "pass")
    assert (tmp_path / ".whence" / ".gitignore").read_text() == "mine\n"


# finishing

BOOM = "def boom(*_args, **_named): raise RuntimeError('patched')\n"
PATCHES = [
    "import json; json.dumps = json.dump = json.loads = boom",
    "import json; json.JSONEncoder.encode = boom",
    "import os; os.replace = os.rename = boom",
    "import os; os.write = os.open = os.close = os.fstat = boom",
    "import os; os.getpid = os.path.exists = os.path.isdir = os.stat = boom",
    "import builtins, io; builtins.open = io.open = boom",
    "import builtins; builtins.print = boom",
    "import pathlib; pathlib.Path.is_dir = pathlib.Path.exists = pathlib.Path.write_text = boom",
    "import time; time.perf_counter = time.monotonic = time.sleep = boom",
    "import random; random.getstate = random.setstate = boom",
    "import dataclasses; dataclasses.asdict = dataclasses.replace = boom",
    "import threading, sys; threading.main_thread = threading.active_count = "
    "sys._current_frames = boom",
    "import os; os.close(2)",
    "import sys; sys.stderr.close()",
    "import sys; sys.stdout = sys.stderr = sys.__stderr__ = None",
    "import gc; gc.collect = gc.get_objects = gc.isenabled = boom",
    "import linecache, traceback; linecache.getline = traceback.format_exc = boom",
    "import shutil; shutil.rmtree('.whence')",
    "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))",
]


@pytest.mark.parametrize(
    "ending", ["", "raise SystemExit(3)", "raise ValueError('its own')"], ids=["0", "3", "raises"]
)
@pytest.mark.parametrize("patch", PATCHES, ids=[str(number) for number in range(len(PATCHES))])
def test_what_the_program_patches_at_its_end_neither_raises_nor_changes_its_exit_code(
    tmp_path: Path, patch: str, ending: str
) -> None:
    text = (
        CAUGHT
        + TRAINING
        + "step()\n"
        + BOOM
        + "print('done', flush=True)\n"
        + patch
        + "\n"
        + ending
    )
    (tmp_path / "train.py").write_text(text)
    ran = in_child(lambda: main(["run", "train.py"]), cwd=tmp_path)
    assert (ran.code, ran.stdout) == ({"": 0, "raise SystemExit(3)": 3}.get(ending, 1), "done\n"), (
        ran.stderr
    )
    assert "patched" not in ran.stderr.replace(
        "could not finish the report: RuntimeError: patched", ""
    )
    assert f"{os.sep}whence{os.sep}" not in ran.stderr


def test_a_broken_pipe_of_the_program_ends_it_as_without_the_watch(tmp_path: Path) -> None:
    script = write(tmp_path, "import sys\nfor _ in range(100_000): print('x' * 100)\n")

    def ended(*words: str) -> int:
        reading, writing = os.pipe()
        os.close(reading)
        with open(writing, "wb") as pipe:
            done = subprocess.run(
                [sys.executable, *words],
                stdout=pipe,
                stderr=subprocess.PIPE,
                cwd=tmp_path,
                timeout=60,
            )
        return done.returncode

    assert ended("-m", "whence", "run", str(script)) == ended(str(script))


# threads and forks


def test_no_thread_is_added_that_the_program_can_see_or_wait_for(tmp_path: Path) -> None:
    looks = """
import threading
for _ in range(3): step()
print(threading.active_count(), threading.enumerate() == [threading.main_thread()])
for each in threading.enumerate():
    if each is not threading.current_thread():
        each.join()
"""
    ran = watched(tmp_path, TRAINING + looks)
    assert (ran.code, ran.stdout) == (0, "1 True\n")


COUNTS = """
import os
for _ in range(3): step()
counted = []
os.register_at_fork(after_in_parent=lambda: counted.append(len(os.listdir("/proc/self/task"))))
seen = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    seen.append(counted[-1])
    step()
print(seen)
"""


def test_our_thread_does_not_exist_while_the_program_forks(tmp_path: Path) -> None:
    """From Python 3.12, a fork with several threads warns: it counts them after these callbacks."""
    script = write(tmp_path, TRAINING + COUNTS)
    assert whence_run(script, cwd=tmp_path).stdout == plain_run(script, cwd=tmp_path).stdout


def test_our_thread_is_back_after_a_fork(tmp_path: Path) -> None:
    returns = """
import os
def threads(): return len(os.listdir("/proc/self/task"))
for _ in range(3): step()
before = threads()
child = os.fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
between = threads()
step()
print(before - between, threads() - between)
"""
    assert watched(tmp_path, TRAINING + returns).stdout == "1 1\n"


# hanging

HANGS_IN_A_LATER_EPOCH = """
import threading
from torch.utils.data import DataLoader, Dataset

class Rows(Dataset):
    epoch = 0
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if self.epoch == 2:
            threading.Event().wait()
        return torch.ones(4)

rows = Rows()
for epoch in range(3):
    rows.epoch = epoch
    for batch in DataLoader(rows, batch_size=2, num_workers=1):
        optimizer.zero_grad()
        model(batch).pow(2).mean().backward()
        optimizer.step()
"""


def test_a_worker_that_hangs_in_its_first_batch_is_noticed(tmp_path: Path) -> None:
    """The fork of the workers has just ended Whence's thread."""
    write(tmp_path, TRAINING + HANGS_IN_A_LATER_EPOCH)
    with started("run", "--hang-after", "2", "train.py", cwd=tmp_path, stderr=subprocess.DEVNULL):
        (finding, *_) = wait_for(lambda: document_in(tmp_path).get("findings"))
    assert "Event().wait()" in finding["origin"]["code"] or finding["rule"] == "memory/hang"


STARVED = """
import os
for _ in range(3): step()
os.sched_setaffinity(0, {int(os.environ["CORE"])})
os.nice(19)
open("ready", "w").close()
x = 1.0
while x: x *= 1.0
"""
HOG = "import os\nos.sched_setaffinity(0, {int(os.environ['CORE'])})\nwhile True: pass"


def test_a_process_that_gets_little_of_a_processor_is_not_called_hanging(tmp_path: Path) -> None:
    """Beside a busy process of normal priority, one of lowest priority gets 1.4 % of a core."""
    write(tmp_path, TRAINING + STARVED)
    environment = {**os.environ, "CORE": str(max(os.sched_getaffinity(0)))}
    with started("run", "--hang-after", "2", "train.py", cwd=tmp_path, env=environment) as child:
        wait_for((tmp_path / "ready").exists)
        hog = subprocess.Popen([sys.executable, "-c", HOG], env=environment)
        try:
            time.sleep(8)
        finally:
            hog.kill()
            hog.wait()
        child.kill()
        child.wait()
    assert document_in(tmp_path)["findings"] == []


def test_a_process_that_is_stopped_again_and_again_is_not_called_hanging(tmp_path: Path) -> None:
    write(
        tmp_path,
        TRAINING + STARVED.replace("os.nice(19)", "").replace("os.sched_setaffinity", "# "),
    )
    with started("run", "--hang-after", "2", "train.py", cwd=tmp_path) as child:
        wait_for((tmp_path / "ready").exists)
        until = time.monotonic() + 8
        while time.monotonic() < until:
            child.send_signal(signal.SIGSTOP)
            time.sleep(0.3)
            child.send_signal(signal.SIGCONT)
            time.sleep(0.003)
        child.kill()
        child.wait()
    assert document_in(tmp_path)["findings"] == []


RANK = """
import os, sys, threading, time
import torch.distributed as dist
rank = int(os.environ["RANK"])
meeting = "file://" + os.path.abspath("meeting")
dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
for _ in range(2): step()
dist.barrier()
if rank == 1:
    {meanwhile}
dist.all_reduce(torch.ones(2))  # HERE
print("met", flush=True)
"""
LAUNCHER = """
import os, subprocess, sys
words = [sys.executable, "-m", "whence", "run", "--hang-after", "3"]
ranks = [
    subprocess.Popen(
        [*words, "--json", f"rank{rank}.json", "train.py"], env={**os.environ, "RANK": str(rank)}
    )
    for rank in range(2)
]
try:
    sys.exit(max(each.wait() for each in ranks))
finally:
    for each in ranks:
        each.kill()
"""


@contextmanager
def two_ranks(folder: Path, meanwhile: str) -> Iterator[subprocess.Popen[bytes]]:
    text = TRAINING + RANK.replace("{meanwhile}", meanwhile)
    write(folder, text)
    write(folder, LAUNCHER, "launch.py")
    environment = {**os.environ, "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo"}
    launcher = subprocess.Popen(
        [sys.executable, "launch.py"], cwd=folder, env=environment, start_new_session=True
    )
    try:
        yield launcher
    finally:
        with suppress(ProcessLookupError):
            os.killpg(launcher.pid, signal.SIGKILL)
        launcher.wait()


def findings_of(folder: Path, rank: int) -> list[dict[str, Any]]:
    path = folder / f"rank{rank}.json"
    return list(json.loads(path.read_text())["findings"]) if path.exists() else []


def test_a_rank_that_waits_for_one_that_never_comes_is_reported_at_its_line(tmp_path: Path) -> None:
    with two_ranks(tmp_path, "threading.Event().wait()"):
        (finding, *_) = wait_for(lambda: findings_of(tmp_path, 0))
    line = next(
        n
        for n, each in enumerate((tmp_path / "train.py").read_text().splitlines(), 1)
        if "# HERE" in each
    )
    assert (finding["rule"], finding["origin"]["line"]) == ("memory/hang", line)
    assert "rank 0 of 2" in finding["verdict"]


def test_a_rank_that_waits_for_a_busy_one_is_not_reported(tmp_path: Path) -> None:
    busy = "until = time.monotonic() + 9\n    while time.monotonic() < until: sum(range(1000))"
    with two_ranks(tmp_path, busy) as launcher:
        assert launcher.wait(timeout=120) == 0
    assert findings_of(tmp_path, 0) == findings_of(tmp_path, 1) == []


# values

SECRET = """
import torch
from torch import nn
model = nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
values = torch.tensor([[-1234.5], [2.0], [3.0]])
for _ in range(3):
    optimizer.zero_grad()
    loss = (model(values) * torch.log(values)).mean()
    loss.backward()
    optimizer.step()
raise ValueError(f"the loss was {values}")
"""


@pytest.mark.parametrize("how", ["option", "pyproject"])
def test_no_values_leaves_tensor_values_out_of_all_that_is_written(
    tmp_path: Path, how: str
) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    known = watched(plain, SECRET)
    assert "-123" in json.dumps(known.findings)
    assert list(plain.glob(".whence/*/repro.safetensors"))
    if how == "pyproject":
        (tmp_path / "pyproject.toml").write_text("[tool.whence]\nno_values = true\n")
    ran = watched(tmp_path, SECRET, *(["--no-values"] if how == "option" else []))
    assert [each["rule"] for each in ran.findings] == [each["rule"] for each in known.findings]
    assert ran.document["outcome"]["exception"].startswith("ValueError: the loss was tensor(")
    files = [each for each in tmp_path.glob(".whence/*/*") if each.is_file()]
    assert [each.name for each in files] == ["findings.json"]
    texts = [files[0].read_text(), ran.stderr.partition("Traceback")[0]]
    for text in texts:
        # The source contains the value too, and is shown unchanged.
        shown = "\n".join(line for line in text.splitlines() if "torch.tensor(" not in line)
        assert "-123" not in shown
    assert "repro.py: not written" in " ".join(ran.document["not_watched"])


def test_places_shapes_and_counts_stay_without_values() -> None:
    from whence.redaction import without_values

    kept = (
        "step 12 of train.py:14: (64, 1, 28) meets Linear(in_features=400, out_features=1) for "
        "3 samples of float32"
    )
    assert without_values(kept) == kept
    assert without_values("log of -2.999 gave NaN") == "log of <value> gave NaN"
    assert (
        without_values("(2,) float32  [1.5, -2e-05, ...]")
        == "(2,) float32  [<value>, <value>, ...]"
    )
    assert without_values("label 7 is out of range") == "label <value> is out of range"


def test_the_run_folder_and_its_record_have_the_users_usual_permissions(tmp_path: Path) -> None:
    def body() -> None:
        os.umask(0o027)
        main(["run", "-c", "pass"])

    in_child(body, cwd=tmp_path)
    (record,) = tmp_path.glob(".whence/*/findings.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o640


def test_watches_that_are_closed_leave_no_descriptor_open(tmp_path: Path) -> None:
    def body() -> None:
        whence.watch().close()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            whence.watch().close()
        print(len(os.listdir("/proc/self/fd")) - before)

    assert in_child(body, cwd=tmp_path).stdout == "0\n"


def test_what_the_program_patches_does_not_raise_where_a_watch_is_closed(tmp_path: Path) -> None:
    def body() -> None:
        import random

        watch = whence.watch()
        exec(CAUGHT, {})

        def boom(*_: Any) -> Any:
            raise RuntimeError("patched")

        random.getstate = boom
        watch.close()
        print(watch.report.finished)

    assert in_child(body, cwd=tmp_path).stdout == "True\n"
