"""On an accelerator nothing is read in steady state, and a NaN is still traced to its own step.

There is no accelerator here. `devices.stand_in` treats CPU tensors as those of a device that runs
behind the program.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from forking import Ran, in_child, plain_run, whence_run
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import DataLoader, TensorDataset

import whence.watching.listeners
from cases import ALL, copied
from whence import devices
from whence.config import Config
from whence.finding import Severity
from whence.record import Record
from whence.report.live import LiveReport
from whence.tape.passes import PassBook
from whence.tape.readings import GRADIENTS, Boards, Reading
from whence.tape.replay import leaving_no_trace
from whence.tape.tape import Tape
from whence.tape.trial import aside
from whence.watching import diagnosing, pacing, pending_steps
from whence.watching.listeners.listener import Listener
from whence.watching.routine import Routine
from whence.watching.session import Session

READING = frozenset(
    {
        "_local_scalar_dense",
        "item",
        "is_nonzero",
        "equal",
        "nonzero",
        "allclose",
        "unique",
        "_unique2",
    }
)


class Reads(TorchDispatchMode):
    """Count operations that need a value from the device, while Whence is at work."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.depth = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func.__name__.partition(".")[0]
        blocks = name == "_to_copy" and str(kwargs.get("device")) == "cpu"
        if name in READING or blocks:
            self.note(name)
        return func(*args, **kwargs)

    def note(self, name: str) -> None:
        frame = sys._getframe(2)
        while (
            not frame.f_code.co_filename.startswith(str(Path(devices.__file__).parent))
            and frame.f_back is not None
        ):
            frame = frame.f_back
        self.found.append(f"{name} at {Path(frame.f_code.co_filename).name}:{frame.f_lineno}")

    def around(self, look: Callable[..., Any]) -> Callable[..., Any]:
        """Run the check with this mode on, but not before: a program's mode closes the sensors."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return look(*args, **kwargs)
            self.depth += 1
            try:
                with self:
                    return look(*args, **kwargs)
            finally:
                self.depth -= 1

        return watched

    def install(self) -> None:
        """Wrap everything that sensors report to. Only for use in a child process."""
        for each in pkgutil.iter_modules(whence.watching.listeners.__path__):
            importlib.import_module(f"whence.watching.listeners.{each.name}")
        for owner in (*Listener.__subclasses__(), Routine):
            for name, look in vars(owner).items():
                if (
                    isinstance(look, FunctionType)
                    and not name.startswith("_")
                    and name != "looking"
                ):
                    setattr(owner, name, self.around(look))
        reads = self

        def counted(name: str, original: Any) -> Any:
            def read(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
                # A value in host memory no longer belongs to the device.
                if reads.depth and Path(sys._getframe(1).f_code.co_filename).name != "readings.py":
                    reads.note(name)
                return original(tensor, *args, **kwargs)

            return read

        # These copy internally, below what a mode sees.
        for name in ("tolist", "numpy", "cpu"):
            setattr(torch.Tensor, name, counted(name, getattr(torch.Tensor, name)))


FLOOR = 1.0
"""Under every loss: one that doubles is looked at closely."""


def mlp() -> tuple[nn.Module, torch.optim.Optimizer]:
    net = nn.Sequential(
        nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1)
    )
    return net, torch.optim.AdamW(net.parameters(), lr=1e-3)


def with_loader(steps: int) -> None:
    net, optimizer = mlp()
    x = torch.rand(64, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
    for _ in range(steps // 8):
        for rows, target in loader:
            optimizer.zero_grad()
            (F.mse_loss(net(rows), target) + FLOOR).backward()
            optimizer.step()


def without_loader(steps: int) -> None:
    net, optimizer = mlp()
    x = torch.rand(64, 4)
    for step in range(steps):
        start = step % 8 * 8
        rows = x[start : start + 8]
        loss = (net(rows) - rows.sum(1, keepdim=True)).square().mean() + FLOOR
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def accumulating(steps: int) -> None:
    net, optimizer = mlp()
    x = torch.rand(64, 4)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=8)
    for _ in range(steps // 2):
        for number, (rows, target) in enumerate(loader):
            (F.mse_loss(net(rows), target) + FLOOR).backward()
            if number % 4 == 3:
                optimizer.step()
                optimizer.zero_grad()


def in_bfloat16(steps: int) -> None:
    net, optimizer = mlp()
    x = torch.rand(8, 4)
    for _ in range(steps):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (net(x) - 1).square().mean() + FLOOR
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()


def on_a_plateau(steps: int) -> None:
    net, optimizer = mlp()
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=10_000)
    x = torch.rand(8, 4)
    for _ in range(steps):
        loss = (net(x) - 1).square().mean() + FLOOR
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step(loss.detach())


class Own(torch.optim.Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 1e-3})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for each in group["params"]:
                each -= group["lr"] * each.grad.sign()


def own_optimizer(steps: int) -> None:
    net, _ = mlp()
    optimizer = Own(net.parameters())
    x = torch.rand(8, 4)
    for _ in range(steps):
        loss = (net(x) - 1).square().mean() + FLOOR
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def two_optimizers(steps: int) -> None:
    makes, judges = nn.Linear(4, 4), nn.Linear(4, 1)
    first, second = (
        torch.optim.Adam(makes.parameters(), 1e-3),
        torch.optim.Adam(judges.parameters(), 1e-3),
    )
    x = torch.rand(8, 4)
    for _ in range(steps):
        fake = makes(x)
        against = F.softplus(-judges(x)).mean() + F.softplus(judges(fake.detach())).mean()
        second.zero_grad()
        against.backward()
        second.step()
        first.zero_grad()
        F.softplus(-judges(fake)).mean().backward()
        first.step()


def with_scaler(steps: int) -> None:
    net, optimizer = mlp()
    scaler = torch.amp.GradScaler("cpu")
    x = torch.rand(8, 4)
    for _ in range(steps):
        optimizer.zero_grad()
        scaler.scale((net(x) - 1).square().mean() + FLOOR).backward()
        scaler.step(optimizer)
        scaler.update()


LOOPS = [
    with_loader,
    without_loader,
    accumulating,
    in_bfloat16,
    on_a_plateau,
    own_optimizer,
    two_optimizers,
    with_scaler,
]


def reads_of(loop: Callable[[int], None], config: Config) -> tuple[list[str], int]:
    """Count the reads in routine steps, and these steps. Only for use in a child process."""
    torch.manual_seed(0)
    reads, seen = Reads(), []
    reads.install()
    pacing.LEDGER_STEPS = 20
    # Recording ends early, whatever the budget is.
    pacing.Pace._is_dear = lambda pace: pace.tape.count > 200  # type: ignore[method-assign]
    devices.stand_in = devices.StandIn(1)
    session = Session(config, Record(), LiveReport(quiet=True, folder=None))
    original = torch.optim.Optimizer.zero_grad

    def zero_grad(optimizer: Any, *args: Any, **kwargs: Any) -> None:
        # A step begins here. A step with an audit (96, 192) is recorded and may read values.
        if session.step > 100 and session.pace.is_quiet():
            seen.append(len(reads.found))
        original(optimizer, *args, **kwargs)

    torch.optim.Optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    session.start()
    loop(160)
    assert len(session.losses()) > 100
    session.stop()
    return reads.found[seen[0] : seen[-1]], len(seen)


@pytest.mark.parametrize("loop", LOOPS)
def test_nothing_is_read_from_an_accelerator_in_steady_state(
    loop: Callable[[int], None], tmp_path: Path
) -> None:
    def body() -> None:
        found, steps = reads_of(loop, Config())
        assert steps > 40
        assert found == []

    ran = in_child(body, cwd=tmp_path)
    assert ran.code == 0, ran.stderr


CASES = {
    # The case's expectation, at its own line and step: the step and its weights are kept until
    # its values arrive.
    "backward": ("nonfinite/backward", "proven", True, 8),
    "backward--accumulated": ("nonfinite/backward", "proven", True, 35),
    "backward--clamped-division": ("nonfinite/backward", "proven", True, 8),
    "backward--clamped-log": ("nonfinite/backward", "proven", True, 27),
    "forward": ("nonfinite/forward", "proven", True, 47),
    "forward--flatline": ("nonfinite/forward", "proven", True, 9),
    "forward--focal": ("nonfinite/forward", "proven", True, 11),
    "forward--groups-of-any-size": ("nonfinite/forward", "proven", True, 111),
    "state--second-moment": ("nonfinite/state", "proven", True, 9),
    "gradient-applied--restored": ("nonfinite/gradient-applied", "likely", True, 105),
    # No recording matches the step. A step read at once is run again from the program's lines and
    # variables, but these now hold a later step's values. Only the known facts are reported.
    "backward--contours": ("nonfinite/gradient-applied", "likely", False, 171),
    "backward--hidden-entropy": ("nonfinite/gradient-applied", "likely", False, 17),
    "forward--gan": ("nonfinite/gradient-applied", "likely", False, 29),
    "forward--late-metric": ("nonfinite/gradient-applied", "likely", False, 243),
    "update--projection": ("nonfinite/update", "likely", False, 801),
    # The same if it recurs: for some steps after the first, 524, values are read at once.
    "forward--late-penalty": ("nonfinite/forward", "proven", True, 531),
}
LARGE = {
    # Weights that are too large to be copied in each step: others replace them.
    "backward": ("nonfinite/backward", "likely", True, 8),
    "forward--focal": ("nonfinite/forward", "likely", True, 11),
    # With those nothing is wrong: the original weights caused the fault.
    "forward": ("nonfinite/gradient-applied", "likely", False, 47),
}
Expected = tuple[str, str, bool, int]


@pytest.mark.parametrize(
    ("name", "expected", "largest"),
    [(name, each, pending_steps.LARGEST_WEIGHTS) for name, each in CASES.items()]
    + [(name, each, 0) for name, each in LARGE.items()],
)
def test_what_is_found_of_a_step_that_is_read_late(
    name: str, expected: Expected, largest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pacing.Pace, "_is_dear", lambda pace: pace.tape.count > 0)
    monkeypatch.setattr(devices, "stand_in", devices.StandIn(1))
    monkeypatch.setattr(pending_steps, "LARGEST_WEIGHTS", largest)
    (case,) = (each for each in ALL if each.name == f"nonfinite/{name}")
    script = copied(case, tmp_path) / "broken.py"
    ran = whence_run(script, cwd=tmp_path)
    (finding,) = ran.loud
    origin = finding["origin"]
    found = (
        finding["rule"],
        finding["confidence"],
        origin["line"] == case.origin_line,
        origin["step"],
    )
    assert found == expected, ran.stderr
    assert (ran.code in (0, 1), ran.stdout) == (True, plain_run(script, cwd=tmp_path).stdout)


def test_a_late_step_that_cannot_be_run_again_does_not_go_by_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The micro-batches come from no loader: they are gone when the flag arrives."""
    monkeypatch.setattr(pacing.Pace, "_is_dear", lambda pace: pace.tape.count > 0)
    monkeypatch.setattr(devices, "stand_in", devices.StandIn(1))
    (case,) = (each for each in ALL if each.name == "nonfinite/forward--micro-batches")
    ran = whence_run(copied(case, tmp_path) / "broken.py", cwd=tmp_path)
    unseen = ran.document["not_watched"]
    assert ran.loud or any("could not be replayed" in each for each in unseen), unseen


BAD_ROW = """
import torch
from torch import nn

torch.manual_seed(0)
x, y = torch.rand(160, 4) + 0.1, torch.rand(160, 1)
x[137] = -1.0
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
room = torch.empty(8, 4)
for start in range(0, 160, 8):
    rows, target = READ, y[start:start + 8]
    loss = (model(rows) + torch.log(rows.sum(1, keepdim=True)) - target).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
sums = [float(each.nan_to_num().sum()) for each in model.state_dict().values()]
print(sum(sums), torch.rand(1).item())
"""


def late_run(folder: Path, text: str, delay: int, *options: str) -> Ran:
    kept = pacing.Pace._is_dear
    pacing.Pace._is_dear = lambda pace: pace.tape.count > 0  # type: ignore[method-assign]
    devices.stand_in = devices.StandIn(delay)
    script = folder / "program.py"
    script.write_text(text)
    try:
        return whence_run(script, *options, cwd=folder)
    finally:
        devices.stand_in, pacing.Pace._is_dear = None, kept  # type: ignore[method-assign]


def test_a_step_is_kept_for_two_steps_and_no_longer(tmp_path: Path) -> None:
    text = BAD_ROW.replace("READ", "x[start:start + 8]")
    for delay in (0, 1):
        (finding,) = late_run(tmp_path, text, delay).loud
        assert (finding["rule"], finding["origin"]["op"], finding["confidence"]) == (
            "nonfinite/forward",
            "log",
            "proven",
        )
    (finding,) = late_run(tmp_path, text, 4).loud
    assert (finding["rule"], finding["origin"]["step"]) == ("nonfinite/gradient-applied", 17)
    assert "were freed before its values arrived" in finding["proof"]["replay"]
    assert "--stop-on" in finding["fix"]


def test_inputs_that_were_overwritten_since_are_not_replayed(tmp_path: Path) -> None:
    """A program with one buffer for all its batches, as for a CUDA graph."""
    text = BAD_ROW.replace("READ", "room.copy_(x[start:start + 8])")
    (finding,) = late_run(tmp_path, text, 1).loud
    assert (finding["rule"], finding["confidence"]) == ("nonfinite/gradient-applied", "likely")


def test_a_program_ends_as_without_the_watch(tmp_path: Path) -> None:
    ran = late_run(tmp_path, BAD_ROW.replace("READ", "x[start:start + 8]"), 1)
    assert ran.stdout == plain_run(tmp_path / "program.py", cwd=tmp_path).stdout != ""


def test_the_last_steps_are_read_when_the_program_ends(tmp_path: Path) -> None:
    text = BAD_ROW.replace("READ", "x[start:start + 8]").replace("0, 160, 8", "0, 144, 8")
    (finding,) = late_run(tmp_path, text, 100).loud
    assert (finding["origin"]["step"], finding["origin"]["op"]) == (17, "log")


def test_stop_on_stops_before_the_update(tmp_path: Path) -> None:
    ran = late_run(tmp_path, BAD_ROW.replace("READ", "x[start:start + 8]"), 1, "--stop-on", "error")
    (finding,) = ran.loud
    assert (ran.code, ran.stdout, finding["confidence"]) == (1, "", "proven")


class Fake:
    """torch's module for a kind of device: two devices, each with a random state."""

    def __init__(self, free: int = 0) -> None:
        self.states = [torch.tensor([1]), torch.tensor([2])]
        self.free = free
        self.used = self.capturing = False

    def is_initialized(self) -> bool:
        return self.used

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def device_count(self) -> int:
        return 2

    def get_rng_state(self, index: int) -> torch.Tensor:
        return self.states[index].clone()

    def set_rng_state(self, state: torch.Tensor, index: int) -> None:
        self.states[index] = state

    def mem_get_info(self, device: Any) -> tuple[int, int]:
        return self.free, 100

    def memory_reserved(self, device: Any) -> int:
        return 30

    def memory_allocated(self, device: Any) -> int:
        return 10


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    made = Fake()
    monkeypatch.setattr(devices, "BUILT", ("xpu",))
    monkeypatch.setitem(devices._modules, "xpu", made)
    return made


def test_the_random_states_of_all_devices_are_put_back(fake: Fake) -> None:
    assert isinstance(devices.random_state(), torch.Tensor)
    fake.used = True
    with leaving_no_trace():
        torch.rand(1)
        fake.states = [torch.tensor([3]), torch.tensor([4])]
    assert [int(each) for each in fake.states] == [1, 2]
    with aside():
        fake.states[1] = torch.tensor([5])
    assert [int(each) for each in fake.states] == [1, 2]


def test_a_replay_draws_what_the_step_has_drawn_on_its_device(fake: Fake) -> None:
    fake.used = True
    book = PassBook(Tape())
    book.mark("start")
    fake.states[0] = torch.tensor([7])
    devices.restore_random_state(book.current.marks[0].state)
    assert int(fake.states[0]) == 1


def test_a_look_is_left_out_where_the_device_has_no_room(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = torch.device("xpu", 0)
    fake.free = 80
    # torch itself keeps 20 more.
    assert devices.has_room(device, 49)
    assert not devices.has_room(device, 50)
    assert devices.has_room(torch.device("cpu"), 10**15)
    # A device that does not report its free memory: little is used.
    for name in ("mem_get_info", "memory_reserved", "memory_allocated"):
        monkeypatch.delattr(Fake, name)
    if hasattr(torch, "accelerator"):
        monkeypatch.delattr(torch.accelerator, "get_memory_info", raising=False)
    assert devices.has_room(device, devices.SMALL_LOOK - 1)
    assert not devices.has_room(device, devices.SMALL_LOOK)


def test_nothing_is_added_to_a_graph_that_is_captured(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not devices.is_capturing()
    fake.used = fake.capturing = True
    assert devices.is_capturing()
    monkeypatch.setattr(devices, "stand_in", devices.StandIn())
    steps = pending_steps.PendingSteps(PassBook(Tape()))
    steps.add_loss(torch.zeros((), requires_grad=True))
    steps.close()
    assert not steps.is_open
    assert not steps


def test_flags_are_raised_on_each_device_and_for_every_kind_of_tensor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(devices, "stand_in", devices.StandIn(0))
    for bad in (1.0, float("nan"), float("inf"), -float("inf")):
        for tensor in (
            torch.full((3,), bad),
            torch.full((3,), bad, dtype=torch.bfloat16),
            torch.full((3,), bad, dtype=torch.complex64),
            torch.full((3,), bad).to_sparse(),
            torch.full((1,), bad).expand(4),
            torch.full((2,), bad * 1e300, dtype=torch.float64),
        ):
            reading = Reading(Boards())
            reading.flag(GRADIENTS, [torch.ones(2), tensor, torch.empty(0)])
            reading.send()
            assert reading.flags() == (not torch.isfinite(tensor.to_dense()).all(), False, False), (
                tensor
            )


def test_a_flag_that_was_up_does_not_stay_up() -> None:
    devices.stand_in, boards = devices.StandIn(0), Boards()
    try:
        seen = []
        for number in range(20):
            reading = Reading(boards)
            reading.flag(GRADIENTS, [torch.tensor([float("nan") if number == 3 else 1.0])])
            reading.send()
            seen.append(reading.flags()[0])
            reading.give_back()
        assert seen == [number == 3 for number in range(20)]
    finally:
        devices.stand_in = None


def test_stop_on_reads_in_time(tmp_path: Path) -> None:
    """Reads are counted: in each step the loss and the flag of the gradients."""

    def body() -> None:
        found, steps = reads_of(without_loader, Config(stop_on=Severity.ERROR))
        assert len(found) >= 2 * (steps - 1)

    ran = in_child(body, cwd=tmp_path)
    assert ran.code == 0, ran.stderr


def test_a_step_is_not_replayed_where_the_device_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosing, "has_room", lambda device, size: size == 0)
    (finding,) = late_run(tmp_path, BAD_ROW.replace("READ", "x[start:start + 8]"), 1).loud
    assert (finding["rule"], finding["confidence"]) == ("nonfinite/gradient-applied", "likely")
    assert "no room" in finding["proof"]["replay"]
