"""A sensor sees what it should, keeps nothing alive, and removes itself when it fails."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from forking import whence_run
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from whence.config import Config
from whence.finding import Finding, Outcome
from whence.record import Record
from whence.watching import budget
from whence.watching.session import Session


class Silent:
    def hold(self, finding: Finding) -> None: ...
    def release(self) -> None: ...


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    # How far the first second reaches depends on the machine.
    monkeypatch.setattr(budget, "FLOOR_SECONDS", 60.0)
    made = Session(Config(), Record(), Silent())
    made.start()
    yield made
    made.close(Outcome())


def test_each_call_is_on_the_tape_with_its_own_expression_even_on_one_line(
    session: Session,
) -> None:
    x = torch.ones(2); y = x + 1; z = y * 2  # fmt: skip  # noqa: E702
    last = session.tape.value_of(z).call
    first = session.tape.value_of(y).call
    assert last is not None
    assert first is not None
    assert last.site is not None
    assert first.site is not None
    assert (first.name, last.name) == ("add", "mul") or (first.name, last.name) == (
        "__add__",
        "__mul__",
    )
    assert first.site.span().column < last.site.span().column
    assert first.site.span().line == last.site.span().line
    assert last.operands[0].call is first


def test_the_tape_keeps_no_activation_alive(session: Session) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    activation = model[0](torch.ones(3, 4))
    gone = weakref.ref(activation)
    model[2](model[1](activation))
    del activation
    gc.collect()
    assert gone() is None


def test_the_tape_is_bounded(session: Session) -> None:
    session.tape.most_calls = 100
    x = torch.ones(2)
    for _ in range(500):
        x = x + 1
    assert len(session.tape.calls) == 100


def test_an_in_place_change_makes_a_new_value_of_the_same_tensor(session: Session) -> None:
    x = torch.zeros(3)
    before = session.tape.value_of(x)
    x += 1
    after = session.tape.value_of(x)
    assert after is not before
    assert after.call is not None
    assert after.call.changed == (before,)


def test_module_paths_are_named_from_the_model_down(session: Session) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.body(x)

    model = Net()
    model(torch.ones(2, 4))
    assert session.modules.path_of(model.body[0]) == "Net.body.0"
    assert "nn.Linear(4, 4)" in _source_line(session.modules.built_at(model.body[0])[0].f_lineno)


def _source_line(number: int) -> str:
    return Path(__file__).read_text().splitlines()[number - 1]


BREAKS_A_SENSOR = """
import torch
from torch import nn
import whence.{module} as broken

def fail(*args, **kwargs):
    raise ZeroDivisionError("on purpose")

broken.{target} = fail
from torch.utils.data import DataLoader
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(torch.ones(4, 3), batch_size=2):
    model(x).sum().backward()
    optimizer.step()
print(model.weight.sum().item())
"""


def test_a_copied_module_was_built_where_its_original_was(session: Session) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    original, copied = session.modules.built_at(layer.self_attn), encoder.layers[1].self_attn
    assert session.modules.built_at(copied) == original != ()
    assert copied not in session.modules.known()
    assert len(session.modules._copies) > 0
    del encoder, copied
    gc.collect()
    assert len(session.modules._copies) == 0


SEEN: list[nn.Module] = []


def _see(module: nn.Module, *_: object) -> None:
    SEEN.append(module)


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, how: str = "") -> torch.Tensor:
        if how == "raise":
            raise ValueError("on purpose")
        if how == "copy":
            self.twins = copy.deepcopy(self), pickle.loads(pickle.dumps(self))
        self.alone = not torch_module._global_forward_pre_hooks
        return self.layer(x)


def test_an_outermost_module_runs_alone_with_a_hook_and_keeps_none(session: Session) -> None:
    session.calls.stop()
    model = Inner()
    mine = model.register_forward_hook(_see)
    SEEN.clear()
    hooks = model._forward_hooks
    x = torch.ones(2, 3)
    model(x)
    session.calls.stop()  # The first input of a kind is recorded.
    model(x)
    assert model.alone
    with pytest.raises(ValueError, match="on purpose"):
        model(x, "raise")
    assert session.scope is None
    model(x, "copy")
    for twin in model.twins:
        assert twin(x).equal(model.layer(x))
    assert len(SEEN) == 5
    assert model._forward_hooks is hooks
    assert len(hooks) == 1
    assert not model._forward_hooks_always_called
    assert torch_module._global_forward_pre_hooks
    mine.remove()
    session.stop()
    assert not hooks
    assert not torch_module._global_forward_pre_hooks


def test_passes_that_tell_nothing_new_are_thinned_out_on_the_tape(session: Session) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    lengths = []
    for _ in range(40):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).sum().backward()
        optimizer.step()
        lengths.append(len(session.tape.calls))
    assert session.calls.on
    assert lengths[-1] == lengths[-10]
    assert not any(call.forgotten for call in session.tape.calls)


def test_a_result_that_is_still_in_use_keeps_its_pass_on_the_tape(session: Session) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    kept = None
    for number in range(40):
        optimizer.zero_grad()
        prediction = model(torch.ones(2, 3))
        kept = prediction.detach() if number == 12 else kept
        prediction.sum().backward()
        optimizer.step()
    call = session.tape.value_of(kept).call
    assert call is not None
    assert not call.forgotten
    assert call.operands[0].call is not None
    assert call.operands[0].call.name == "linear"
    assert call.operands[0].call.operands


@pytest.mark.parametrize(
    ("sensor", "module", "target"),
    [
        ("calls", "tape.tape", "Tape.begin"),
        ("modules", "tape.scopes", "ModuleBook.note_construction"),
        ("loader", "tape.batches", "LoaderBook.deliver"),
        ("optimizer", "watching.listeners.optimizers", "OptimizerListener.step_ended"),
    ],
)
def test_a_sensor_that_fails_switches_itself_off_once_and_the_program_goes_on(
    tmp_path: Path, sensor: str, module: str, target: str
) -> None:
    script = tmp_path / "train.py"
    script.write_text(BREAKS_A_SENSOR.format(module=module, target=target))
    ran = whence_run(script, cwd=tmp_path)
    assert ran.code == 0, ran.stderr
    assert len(ran.document["not_watched"]) == 1
    assert ran.document["not_watched"][0].startswith(
        f"the {sensor} sensor failed (ZeroDivisionError: on purpose)"
    )
    assert ran.stderr.count("on purpose") == 1


@pytest.mark.usefixtures("session")
def test_functions_that_are_watched_can_be_sent_to_other_processes() -> None:
    for function in (torch.save, torch.load, nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_):
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize(
    ("module", "target", "named"),
    [
        (
            "sensors.modules",
            "ModuleSensor._wrap_register",
            "modules and the calls they make: the modules sensor",
        ),
        ("sensors.loader", "LoaderSensor._wrap_next", "data loaders: the loader sensor"),
        (
            "sensors.optimizer",
            "register_optimizer_step_post_hook",
            "optimizer steps: the optimizer sensor",
        ),
        ("sensors.calls", "CallSensor._whole", "torch calls: the calls sensor"),
    ],
)
def test_a_sensor_that_cannot_start_costs_itself_and_no_other(
    monkeypatch: pytest.MonkeyPatch, module: str, target: str, named: str
) -> None:
    def fail(*_: object) -> None:
        raise AttributeError("on purpose")

    before = _what_sensors_replace()
    monkeypatch.setattr(f"whence.{module}.{target}", fail)
    record = Record()
    watch = Session(Config(), record, Silent())
    watch.start()
    started = [each.name for each in watch.sensors if each.on]
    started += ["calls"] if watch.calls.on else []
    try:
        version = torch.__version__.partition("+")[0]
        because = f"could not start on torch {version} (AttributeError: on purpose)"
        assert record.report.not_watched == (f"{named} {because}",)
        sensors = {each.name for each in watch.sensors} | {"calls"}
        assert sensors - set(started) == {named.split()[-2]}
        _train()
        assert watch.step == 2 or "optimizer" in named
    finally:
        watch.close(Outcome())
    assert _what_sensors_replace() == before


def _train() -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in torch.utils.data.DataLoader(torch.ones(4, 3), batch_size=2):
        model(x).sum().backward()
        optimizer.step()


def _what_sensors_replace() -> list[object]:
    owners = (
        nn.Module,
        torch.optim.Optimizer,
        torch.utils.data.DataLoader,
        torch.autograd.Function,
        torch,
    )
    hooks = (torch_module._global_forward_pre_hooks, torch_module._global_forward_hooks)
    steps = (_global_optimizer_pre_hooks, _global_optimizer_post_hooks)
    return [*(dict(vars(each)) for each in owners), *(dict(each) for each in hooks + steps)]


def test_reflected_operators_compute_what_they_compute_without_a_watch(session: Session) -> None:
    x = torch.tensor([3.0])
    assert (1 - x, 2**x, 5 // x) == (torch.tensor([-2.0]), torch.tensor([8.0]), torch.tensor([1.0]))
    assert session.tape.value_of(1 - x).call is not None


def test_pytorchs_own_wrappers_are_not_taken_for_replacements_by_the_program() -> None:
    import torch._dynamo  # noqa: F401  wraps torch.manual_seed, as any optimizer does

    from whence.tape.native import replaced_names, runs_only_torch

    assert "manual_seed" not in replaced_names()
    assert runs_only_torch(nn.functional.cross_entropy)


def test_a_method_that_a_class_inherits_is_inherited_again_when_the_sensor_stops(
    session: Session,
) -> None:
    """`OptimizedModule` of torch 2.4 does not define `__call__`."""

    class Inherits(nn.Linear): ...

    called: list[str] = []

    def noted(original: Callable[..., object]) -> Callable[..., object]:
        def __call__(*args: object) -> object:
            called.append("here")
            return original(*args)

        return __call__

    layer, other = Inherits(2, 2), nn.Linear(2, 2)
    session.order._wrap(Inherits, "__call__", noted)
    layer(torch.ones(1, 2))
    other(torch.ones(1, 2))
    assert called == ["here"]
    session.order.stop()
    assert "__call__" not in vars(Inherits)
    layer(torch.ones(1, 2))
    assert called == ["here"]
