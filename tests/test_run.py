"""A program under `whence run` cannot tell the difference.
Plain Python, run beside it, is the judge.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import torch._dynamo  # noqa: F401  what forked children would each import anew: optimizers want it
from forking import Ran, in_child, plain_run

import whence.watching.session  # noqa: F401
from whence.cli import main

# `in_child` leaves its two temporary files to the garbage collector.


WATCHED_FAILURE = """
    import torch
    from torch import nn

    def train():
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(9, 2))
        return model(torch.ones(3, 4))

    train()
"""
CAUGHT_FAILURE = """
    import torch
    try:
        torch.nn.Linear(4, 2)(torch.ones(3, 5))
    except RuntimeError as error:
        print("caught", error)
"""


def write(folder: Path, text: str, name: str = "train.py") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(text))
    return path


def python(*words: str, cwd: Path) -> Ran:
    """Plain Python, for programs that do not import torch: 30 ms."""
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, capture_output=True, text=True, timeout=60
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def under_whence(*words: str, cwd: Path, first: Callable[[], Any] = lambda: None) -> Ran:
    """`whence run` in a forked child; `first` is done there beforehand."""

    def action() -> None:
        first()
        main(["run", *words])

    ran = in_child(action, cwd=cwd)
    ran.document = newest_document(cwd)
    return ran


def whence_process(*words: str, cwd: Path, **env: str) -> Ran:
    """`python -m whence run` in a process of its own: 3 s, for what only a whole process shows."""
    environment = {
        name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"
    } | env
    command = [sys.executable, "-m", "whence", "run", *words]
    done = subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=60, env=environment
    )
    ran = Ran(done.returncode, done.stdout, done.stderr)
    ran.document = newest_document(cwd)
    return ran


def newest_document(cwd: Path) -> dict[str, Any]:
    found = sorted(cwd.glob(".whence/*/findings.json"))
    document: dict[str, Any] = json.loads(found[-1].read_text()) if found else {}
    return document


# how the program looks to itself

LOOK = """
    import sys
    print(__name__, globals().get("__file__"), __package__, __spec__ and __spec__.name, __doc__)
    print(sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals())
    if __name__ == "__main__":
        print("is main")
"""
WAYS = {
    "script": ["train.py"],
    "script-below": [os.path.join("package", "train.py")],
    "script-behind-link": ["link.py"],
    "module": ["-m", "package.train"],
    "package": ["-m", "package"],
    "folder": ["package"],
    "command": ["-c", dedent(LOOK)],
}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name in ("train.py", "package/__init__.py", "package/train.py", "package/__main__.py"):
        write(tmp_path, "" if name.endswith("__init__.py") else LOOK, name)
    (tmp_path / "link.py").symlink_to(tmp_path / "package" / "train.py")
    return tmp_path


@pytest.mark.parametrize("way", WAYS)
def test_name_file_package_spec_argv_and_path_are_those_of_plain_python(
    programs: Path, way: str
) -> None:
    words = [*WAYS[way], "--epochs", "3"]
    assert under_whence(*words, cwd=programs).stdout == python(*words, cwd=programs).stdout


@pytest.mark.parametrize("way", ["script", "module", "folder", "command"])
def test_loader_and_annotations_of_main_are_those_of_plain_python(programs: Path, way: str) -> None:
    look = (
        'print(sorted(name for name in globals() if name[0] == "_"), str(__loader__).split(" '
        'object")[0], __cached__)'
    )
    if way == "command":
        words = ["-c", look.replace(", __cached__", "")]
    else:
        words = WAYS[way]
        for name in ("train.py", "package/train.py", "package/__main__.py"):
            write(programs, look, name)
    assert under_whence(*words, cwd=programs).stdout == python(*words, cwd=programs).stdout


def test_multiprocessing_knows_the_programs_main_module(tmp_path: Path) -> None:
    """It keeps a second name for it from the moment it is imported, which torch does before the
    program begins.
    """
    write(
        tmp_path,
        "import multiprocessing, sys; print(sys.modules['__mp_main__'] is sys.modules['__main__'])",
    )
    assert under_whence("train.py", cwd=tmp_path).stdout == "True\n"


def test_options_behind_the_script_are_the_programs_own(tmp_path: Path) -> None:
    write(tmp_path, "import sys; print(sys.argv)")
    words = ["train.py", "--quiet", "--json", "mine.json", "-m", "--fail-on", "nonsense", "-h"]
    assert under_whence(*words, cwd=tmp_path).stdout == f"{words}\n"
    assert not (tmp_path / "mine.json").exists()


def test_relative_imports_work_in_a_module_run_with_m(tmp_path: Path) -> None:
    write(tmp_path, "", "package/__init__.py")
    write(tmp_path, "from .helper import number; print(number)", "package/train.py")
    write(tmp_path, "number = 7", "package/helper.py")
    assert under_whence("-m", "package.train", cwd=tmp_path).stdout == "7\n"


def test_a_script_imports_its_neighbours_and_not_those_of_the_working_folder(
    tmp_path: Path,
) -> None:
    write(tmp_path, "import neighbour", "below/train.py")
    write(tmp_path, "print('right')", "below/neighbour.py")
    write(tmp_path, "print('wrong')", "neighbour.py")
    assert under_whence("below/train.py", cwd=tmp_path).stdout == "right\n"


def test_a_package_that_extends_sys_path_keeps_its_entry(tmp_path: Path) -> None:
    write(tmp_path, "import sys; sys.path.insert(0, '/vendored')", "package/__init__.py")
    write(tmp_path, "import sys; print(sys.path[:2])", "package/train.py")
    words = ("-m", "package.train")
    assert under_whence(*words, cwd=tmp_path).stdout == python(*words, cwd=tmp_path).stdout


def test_a_package_sees_the_programs_arguments_while_it_is_imported(tmp_path: Path) -> None:
    write(tmp_path, "import sys; print(sys.argv[1:])", "package/__init__.py")
    write(tmp_path, "", "package/train.py")
    words = ("-m", "package.train", "--epochs", "3")
    assert under_whence(*words, cwd=tmp_path).stdout == python(*words, cwd=tmp_path).stdout


def test_code_behind_c_shows_the_same_tracebacks_to_itself(tmp_path: Path) -> None:
    code = (
        "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
        "    print(traceback.format_exc())"
    )
    assert under_whence("-c", code, cwd=tmp_path).stdout == python("-c", code, cwd=tmp_path).stdout


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_a_script_in_another_encoding_is_read_as_python_reads_it(
    tmp_path: Path, encoding: str
) -> None:
    text = (
        "# coding: latin-1\nprint(ascii('é'))\n" if encoding == "latin-1" else "print(ascii('é'))\n"
    )
    (tmp_path / "train.py").write_text(text, encoding=encoding)
    assert under_whence("train.py", cwd=tmp_path).stdout == "'\\xe9'\n"


def test_classes_defined_in_main_can_be_pickled(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import copy, pickle, torch
        class Net(torch.nn.Linear): pass
        net = pickle.loads(pickle.dumps(Net(2, 2)))
        torch.save(net, "net.pt")
        loaded = torch.load("net.pt", weights_only=False)
        print(type(net) is Net, type(loaded) is Net, type(copy.deepcopy(net)) is Net)
        """,
    )
    assert under_whence("train.py", cwd=tmp_path).stdout == "True True True\n"


# its output and random numbers

HEALTHY = """
    import hashlib, random
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    model = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 1)
    )
    data = TensorDataset(torch.randn(32, 4), torch.randn(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        for x, y in DataLoader(data, batch_size=10, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            print(loss.item())
    state = b"".join(each.numpy().tobytes() for each in model.state_dict().values())
    print(hashlib.sha256(state).hexdigest(), torch.rand(1), random.Random(0).random())
"""


def test_training_gives_the_same_weights_random_numbers_and_stdout(tmp_path: Path) -> None:
    script = write(tmp_path, HEALTHY)
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.stdout == plain_run(script, cwd=tmp_path).stdout
    assert watched.code == 0
    assert watched.document["steps"] == 12


WARNS = """
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    fixed = np.ones((4, 3), dtype=np.float32)
    fixed.setflags(write=False)
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        out = model(torch.from_numpy(fixed))
        shares = F.softmax(out) + nn.Softmax()(out)
        loss = F.mse_loss(shares, torch.zeros(4, 1)) + nn.MSELoss()(shares, torch.zeros(2))
        turned = torch.zeros(2, 3, 4).T
        again = torch.zeros(2, 3, 4).T
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_torchs_warnings_name_the_lines_that_they_name_without_the_watch(tmp_path: Path) -> None:
    script = str(write(tmp_path, WARNS))
    shown = [
        subprocess.run(
            [sys.executable, *words, script],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        ).stderr
        for words in ([], ["-m", "whence", "run", "--ignore", "loss/broadcast"])
    ]
    plain, watched = shown
    assert "Implicit dimension" in plain
    ours = ("whence 3 steps", "  not watched:")
    assert [
        each for each in watched.splitlines() if not each.startswith(ours)
    ] == plain.splitlines()


WARNS_WHEN_ASKED = """
    import traceback
    import warnings
    import torch
    from torch.utils.data import DataLoader, Sampler, TensorDataset

    class Short(Sampler):
        def __iter__(self):
            yield 0
            raise LookupError("no more")

    def read(**words):
        return list(DataLoader(TensorDataset(torch.arange(4.0)), batch_size=2, **words))

    with warnings.catch_warnings(record=True) as kept:
        warnings.simplefilter("always")
        read(pin_memory=True)
    print([(each.filename, each.lineno) for each in kept])
    for words, filter in (({"pin_memory": True}, "error"), ({"sampler": Short()}, "ignore")):
        with warnings.catch_warnings():
            warnings.simplefilter(filter)
            try:
                read(**words)
            except Exception:
                print(traceback.format_exc())
    warnings.filterwarnings("ignore", module="torch.utils.data")
    read(pin_memory=True)
"""


def test_warnings_that_are_kept_raised_or_filtered_are_those_without_the_watch(
    tmp_path: Path,
) -> None:
    script = write(tmp_path, WARNS_WHEN_ASKED)
    plain = plain_run(script, cwd=tmp_path)
    watched = under_whence(str(script), cwd=tmp_path)
    assert "dataloader.py" in plain.stdout
    assert watched.stdout == plain.stdout
    assert "UserWarning" not in watched.stderr


CATCHES = """
    import traceback
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self): return 4
        def __getitem__(self, index): return [1, 2, 3][index]

    class Net(nn.Module):
        def __init__(self): super().__init__(width=3)

    class Careless(nn.Module):
        def forward(self, x): return x.missing

    class Loud(torch.optim.SGD):
        def step(self, closure=None): raise KeyError("state")

    try:
        {statement}
    except Exception:
        print(traceback.format_exc())
"""


def frames_outside_torch(text: str) -> list[str]:
    """The lines of printed tracebacks without torch's frames: its hooks and modes lead through
    other lines of torch.
    """
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith('  File "') or not line.startswith("  "):
            inside = f"{os.sep}site-packages{os.sep}torch{os.sep}" in line
        if not inside:
            kept.append(line)
    return kept


@pytest.mark.parametrize(
    "statement",
    [
        "nn.Linear(4, 2)(torch.ones(3, 5))",
        "nn.CrossEntropyLoss()(torch.ones(3, 5), torch.ones(4).long())",
        "nn.functional.mse_loss(torch.ones(3), torch.ones(4))",
        "torch.cat([torch.ones(2, 2), torch.ones(3)])",
        "torch.ones(2) + torch.ones(3)",
        "torch.ones(2).backward()",
        "torch.from_numpy('x')",
        "DataLoader(Numbers(), batch_size=-1)",
        "list(DataLoader(Numbers()))",
        "Net()",
        "Careless()(torch.ones(1))",
        "Loud([nn.Parameter(torch.ones(1))], lr=1.0).step()",
    ],
)
def test_a_traceback_that_the_program_prints_has_no_frame_of_whence(
    tmp_path: Path, statement: str
) -> None:
    script = write(tmp_path, CATCHES.replace("{statement}", statement))
    watched, plain = under_whence("train.py", cwd=tmp_path), plain_run(script, cwd=tmp_path)
    assert frames_outside_torch(watched.stdout) == frames_outside_torch(plain.stdout)


SIGNATURES = """
    import inspect, pickle
    import torch
    from torch.utils.data import DataLoader

    print(inspect.signature(DataLoader))
    print(inspect.signature(DataLoader.__init__))
    print(inspect.signature(torch.nn.Module.__init__), torch.nn.Module.__init__.__qualname__)
    print(pickle.loads(pickle.dumps(torch.from_numpy)) is torch.from_numpy)
"""


def test_what_is_wrapped_shows_its_own_signature_and_pickles(tmp_path: Path) -> None:
    """Lightning builds loaders anew from `inspect.signature(DataLoader.__init__)`."""
    script = write(tmp_path, SIGNATURES)
    assert under_whence("train.py", cwd=tmp_path).stdout == plain_run(script, cwd=tmp_path).stdout


# how it ends


@pytest.mark.parametrize(
    "leave", ["sys.exit(3)", "sys.exit()", "sys.exit(0)", "sys.exit(-1)", "os._exit(4)", "quit(5)"]
)
def test_exit_code_is_the_programs_own(tmp_path: Path, leave: str) -> None:
    write(tmp_path, f"import os, sys\nprint('working', flush=True)\n{leave}\nprint('not reached')")
    watched, plain = under_whence("train.py", cwd=tmp_path), python("train.py", cwd=tmp_path)
    assert (watched.code, watched.stdout) == (plain.code, plain.stdout)


def test_exit_with_a_message_prints_it_and_gives_1(tmp_path: Path) -> None:
    write(tmp_path, "import sys; sys.exit('no data here')")
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.code == 1
    assert watched.stderr.splitlines().count("no data here") == 1
    assert watched.document["outcome"] == {"exit_code": 1, "exception": None}


UNCAUGHT = {
    "raise": "def load():\n    raise ValueError('no such column')\nload()",
    "cause": "try:\n    {}['a']\nexcept KeyError as error:\n"
    "    raise RuntimeError('config') from error",
    "context": "try:\n    {}['a']\nexcept KeyError:\n    raise RuntimeError('config')",
    "group": "raise ExceptionGroup('two', [ValueError(1), TypeError(2)])",
    "no text": "assert 1 > 2",
    "own note": "error = ValueError('x')\nerror.add_note('mine')\nraise error",
    "not an Exception": "class Halt(BaseException): pass\nraise Halt('now')",
    "broken str": "class Odd(Exception):\n    def __str__(self): raise TypeError\nraise Odd",
    "import": "import no_such_module_at_all",
    "syntax": "print('before')\nx = = 1\n",
    "indentation": "if True:\nprint(1)\n",
}


@pytest.mark.parametrize("how", UNCAUGHT)
def test_an_uncaught_exception_gives_pythons_own_traceback_and_1(tmp_path: Path, how: str) -> None:
    write(tmp_path, UNCAUGHT[how])
    watched, plain = under_whence("train.py", cwd=tmp_path), python("train.py", cwd=tmp_path)
    assert watched.stderr.startswith(plain.stderr)
    assert (watched.code, watched.stdout) == (plain.code, plain.stdout) == (1, "")


def test_an_exception_whose_str_fails_still_ends_in_the_record(tmp_path: Path) -> None:
    write(tmp_path, UNCAUGHT["broken str"])
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.document["outcome"]["exit_code"] == 1
    assert watched.document["outcome"]["exception"].startswith("Odd")


@pytest.mark.parametrize(
    "text", ["import no_such_module_at_all", "raise ValueError('broken package')"]
)
def test_a_package_that_fails_to_import_is_the_programs_failure_not_wrong_usage(
    tmp_path: Path, text: str
) -> None:
    write(tmp_path, text, "package/__init__.py")
    write(tmp_path, "", "package/train.py")
    watched, plain = (
        under_whence("-m", "package.train", cwd=tmp_path),
        python("-m", "package.train", cwd=tmp_path),
    )
    assert watched.code == plain.code == 1
    assert plain.stderr.splitlines()[-1] in watched.stderr.splitlines()
    assert f"{os.sep}whence{os.sep}" not in watched.stderr.split("whence ")[0]


def test_torchs_exception_keeps_its_traceback_and_gets_a_note_at_its_end(tmp_path: Path) -> None:
    script = write(tmp_path, WATCHED_FAILURE)
    watched, plain = under_whence("train.py", cwd=tmp_path), plain_run(script, cwd=tmp_path)
    expected = frames_outside_torch(plain.stderr[plain.stderr.index(f'  File "{script}"') :])
    header, *lines = frames_outside_torch(watched.stderr)
    assert header == "Traceback (most recent call last):"
    assert lines[: len(expected)] == expected
    assert lines[len(expected)].startswith("whence: ")
    assert watched.stderr.count("\nwhence: ") == 1
    assert watched.code == plain.code == 1


def test_an_exception_gets_no_note_about_an_earlier_one_of_its_kind(tmp_path: Path) -> None:
    write(tmp_path, dedent(CAUGHT_FAILURE) + "raise RuntimeError('out of cheese')")
    watched = under_whence("train.py", cwd=tmp_path)
    assert "RuntimeError: out of cheese\n" in watched.stderr
    assert "RuntimeError: out of cheese\nwhence: " not in watched.stderr


def test_the_record_says_which_exception_ended_the_program(tmp_path: Path) -> None:
    write(tmp_path, "raise ValueError('no such column')")
    outcome = under_whence("train.py", cwd=tmp_path).document["outcome"]
    assert outcome == {"exit_code": 1, "exception": "ValueError: no such column"}


HOOKED = """
    import sys
    def report(kind, error, trace):
        print("hook:", kind.__name__, error, trace.tb_frame.f_code.co_name, {more})
    sys.excepthook = report
    raise ValueError("x")
"""


@pytest.mark.parametrize("more", ["''", "sys.last_value is error and sys.last_traceback is trace"])
def test_the_programs_excepthook_is_called_once_and_instead_of_pythons(
    tmp_path: Path, more: str
) -> None:
    write(tmp_path, HOOKED.replace("{more}", more))
    watched, plain = under_whence("train.py", cwd=tmp_path), python("train.py", cwd=tmp_path)
    assert (watched.code, watched.stdout) == (plain.code, plain.stdout)
    assert "Traceback" not in watched.stderr


@pytest.mark.parametrize("more", ["1 / 0", "sys.exit(5)"])
def test_an_excepthook_that_raises_does_not_cost_the_report(tmp_path: Path, more: str) -> None:
    write(tmp_path, HOOKED.replace("{more}", more))
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.document["outcome"]["exception"] == "ValueError: x"
    assert "no training step was seen" in watched.stderr


# where Whence itself could get in the way


@pytest.mark.parametrize(
    "act",
    [
        "import sys; sys.stderr.close()",
        "import sys; sys.stderr = None",
        "import os, tempfile\nwith tempfile.TemporaryDirectory() as folder: os.chdir(folder)",
        "import shutil; shutil.rmtree('.whence')",
        "import glob, os\n"
        "for each in glob.glob('.whence/*/findings.json'): os.remove(each); os.mkdir(each)",
    ],
    ids=[
        "stderr closed",
        "stderr gone",
        "working folder gone",
        "run folder gone",
        "record blocked",
    ],
)
@pytest.mark.parametrize("then", ["", "raise SystemExit(3)"], ids=["ends", "exits"])
def test_what_the_program_takes_away_does_not_change_how_it_ends(
    tmp_path: Path, act: str, then: str
) -> None:
    (tmp_path / "train.py").write_text(f"{act}\nprint('done')\n{then}\n")
    ran = in_child(lambda: main(["run", "train.py"]), cwd=tmp_path)
    assert (ran.code, ran.stdout) == (3 if then else 0, "done\n"), ran.stderr


def test_a_full_disk_does_not_reach_the_program(tmp_path: Path) -> None:
    script = write(tmp_path, CAUGHT_FAILURE)

    def fill_the_disk() -> None:
        from whence import record

        really_write, calls = record.write_document, iter(range(100))

        def write_document(*args: Any) -> None:
            if next(calls) > 0:
                raise OSError(28, "No space left on device")
            really_write(*args)

        record.write_document = write_document  # type: ignore[assignment]

    watched = under_whence("train.py", cwd=tmp_path, first=fill_the_disk)
    assert watched.stdout == plain_run(script, cwd=tmp_path).stdout
    assert watched.code == 0


def test_a_program_that_goes_elsewhere_is_still_explained_at_its_source(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path, "import os; os.chdir('elsewhere')\n" + dedent(WATCHED_FAILURE))
    (finding,) = under_whence("train.py", cwd=tmp_path).findings
    assert (tmp_path / finding["origin"]["file"]).is_file()
    assert finding["origin"]["code"]


# threads, forks and signals


def test_an_exception_in_a_thread_is_pythons_business(tmp_path: Path) -> None:
    import threading

    def restore_hook() -> None:  # pytest has put its own there
        threading.excepthook = threading.__excepthook__

    write(
        tmp_path,
        """
        import threading
        def work(): raise ValueError("in thread")
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        thread.join()
        print("main goes on")
        """,
    )
    watched = under_whence("train.py", cwd=tmp_path, first=restore_hook)
    plain = python("train.py", cwd=tmp_path)
    assert (watched.code, watched.stdout) == (plain.code, plain.stdout)
    assert watched.stderr.startswith(plain.stderr)


def test_training_in_a_thread_runs_as_without_the_watch(tmp_path: Path) -> None:
    text = dedent(HEALTHY).strip().replace("\n", "\n    ")
    script = write(
        tmp_path,
        "import threading\ndef work():\n    "
        + text
        + "\nthread = threading.Thread(target=work)\nthread.start()\nthread.join()\n",
    )
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.stdout == plain_run(script, cwd=tmp_path).stdout
    assert watched.findings == []


TERMINATES = """
    import multiprocessing, time
    context = multiprocessing.get_context("fork")
    def work(ready):
        ready.set()
        time.sleep(60)
    for _ in range(10):
        # One for each child: a child that is killed within set() would leave a shared one locked
        # for ever.
        ready = context.Event()
        child = context.Process(target=work, args=(ready,))
        child.start()
        {wait}
        child.terminate()
        child.join(5)
        if child.exitcode is None:
            child.kill()
            break
    print(child.exitcode)
"""


@pytest.mark.parametrize("wait", ["ready.wait(30)", ""], ids=["running", "just born"])
def test_a_forked_child_neither_reports_nor_survives_sigterm(tmp_path: Path, wait: str) -> None:
    """Python drops a signal that meets a handler of its own before the child is set up; the default
    action is not lost.
    """
    script = write(tmp_path, TERMINATES.replace("{wait}", wait))
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.stdout == plain_run(script, cwd=tmp_path).stdout == f"{-signal.SIGTERM}\n"
    assert watched.stderr.count("no training step was seen") == 1


def test_a_forked_child_that_dies_leaves_the_parents_record_alone(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, torch
        if os.fork() == 0:
            torch.nn.Linear(4, 2)(torch.ones(3, 5))
        os.wait()
        """,
    )
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.code == 0
    assert watched.document["outcome"] == {"exit_code": 0, "exception": None}
    assert watched.findings == []


def test_the_programs_own_sigterm_handler_is_the_one_that_runs(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, signal, sys
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit("saved a checkpoint"))
        os.kill(os.getpid(), signal.SIGTERM)
        """,
    )
    watched = under_whence("train.py", cwd=tmp_path)
    assert watched.code == 1
    assert "saved a checkpoint" in watched.stderr
    assert watched.document["outcome"]["exit_code"] == 1


def test_a_program_that_catches_ctrl_c_goes_on(tmp_path: Path) -> None:
    write(
        tmp_path,
        """
        import os, signal
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("stopped early, saving")
        """,
    )
    watched = under_whence("train.py", cwd=tmp_path)
    assert (watched.code, watched.stdout) == (0, "stopped early, saving\n")


# whole processes


def test_ctrl_c_ends_the_process_by_sigint_and_the_report_is_written(tmp_path: Path) -> None:
    interrupted = "import os, signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    write(tmp_path, dedent(CAUGHT_FAILURE) + interrupted + "os.kill(os.getpid(), signal.SIGINT)")
    watched = whence_process("train.py", cwd=tmp_path)
    assert (
        watched.code
        == python("-c", interrupted + "os.kill(os.getpid(), 2)", cwd=tmp_path).code
        == -signal.SIGINT
    )
    assert watched.stderr.count("KeyboardInterrupt") == 1
    assert f"{os.sep}whence{os.sep}" not in watched.stderr.split("KeyboardInterrupt")[0]
    assert len(watched.findings) == 1
    assert watched.document["outcome"]["exit_code"] == 128 + signal.SIGINT


def test_sigterm_ends_the_process_by_sigterm_and_the_findings_are_on_disk(tmp_path: Path) -> None:
    write(
        tmp_path,
        dedent(CAUGHT_FAILURE)
        + "import os, signal; os.kill(os.getpid(), signal.SIGTERM); print('survived')",
    )
    watched = whence_process("--json", "findings.json", "train.py", cwd=tmp_path)
    assert watched.code == -signal.SIGTERM
    assert "survived" not in watched.stdout
    assert (watched.document["finished"], watched.document["outcome"]["exit_code"]) == (False, None)
    assert len(watched.findings) == 1
    assert json.loads((tmp_path / "findings.json").read_text()) == watched.document


SPAWNS = """
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor
    from dataclasses import dataclass

    @dataclass
    class Job:
        number: int

    def double(job):
        return Job(2 * job.number)

    if __name__ == "__main__":
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            print(list(pool.map(double, [Job(1), Job(2)])))
"""


@pytest.mark.parametrize(
    "words", [["package/train.py"], ["-m", "package.train"]], ids=["script", "module"]
)
def test_spawned_processes_find_the_main_module_again(tmp_path: Path, words: list[str]) -> None:
    write(tmp_path, SPAWNS, "package/train.py")
    watched, plain = whence_process(*words, cwd=tmp_path), python(*words, cwd=tmp_path)
    assert (
        (watched.code, watched.stdout)
        == (plain.code, plain.stdout)
        == (0, "[Job(number=2), Job(number=4)]\n")
    )


def test_atexit_handlers_late_threads_and_raw_bytes_come_out_as_without_the_watch(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        """
        import atexit, sys, threading, time
        def late():
            threading.main_thread().join()
            print("thread", flush=True)
        threading.Thread(target=late).start()
        atexit.register(lambda: print("atexit", __name__, flush=True))
        sys.stdout.buffer.write(b"\\xc3\\xa9\\r\\n")
        print("no newline at the end", end="")
        raise ValueError("x")
        """,
    )
    watched, plain = whence_process("train.py", cwd=tmp_path), python("train.py", cwd=tmp_path)
    assert (watched.code, watched.stdout) == (plain.code, plain.stdout)
    assert watched.stderr.startswith(plain.stderr)


@pytest.mark.parametrize("env", [{}, {"PYTHONSAFEPATH": "1"}], ids=["usual", "safe path"])
def test_the_whole_module_search_path_is_that_of_plain_python(
    tmp_path: Path, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "import sys; print(sys.path)", "below/train.py")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert (
        whence_process("below/train.py", cwd=tmp_path).stdout
        == python("below/train.py", cwd=tmp_path).stdout
    )


def test_settings_made_before_torch_is_imported_still_count(tmp_path: Path) -> None:
    """The number of threads decides in which order sums are taken, and so their last bits."""
    write(
        tmp_path,
        "import os; os.environ['OMP_NUM_THREADS'] = '1'; import torch; "
        "print(torch.get_num_threads())",
    )
    assert whence_process("train.py", cwd=tmp_path).stdout == "1\n"


@pytest.mark.parametrize(
    ("imports", "ran", "said"),
    [("torch", 0, "whence error Linear expects"), ("torch, rich", 1, "whence: Linear expects")],
)
def test_a_file_that_is_called_rich_is_left_to_the_program(
    tmp_path: Path, imports: str, ran: int, said: str
) -> None:
    (tmp_path / "rich.py").write_text('print("the program\'s own")')
    (tmp_path / "train.py").write_text(
        f"import {imports}\ntorch.nn.Linear(3, 1)(torch.ones(2, 4))\n"
    )
    command = [sys.executable, "-m", "whence", "run", "train.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.count("the program's own") == ran
    assert said in done.stderr
