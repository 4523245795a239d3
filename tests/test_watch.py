"""`whence.watch` sees failures, and leaves nothing behind when it is closed."""

from __future__ import annotations

import copy
import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from forking import Ran, in_child, whence_run
from torch import nn
from torch.nn.modules import module as torch_module
from torch.optim import optimizer as torch_optimizer
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data import dataloader as torch_dataloader

import whence

# `in_child` leaves its two temporary files to the garbage collector.


RULE = "shape/linear-features"
InFork = Callable[[Callable[[], Any]], Ran]


@pytest.fixture
def in_fork(tmp_path: Path) -> InFork:
    """Run a test's body in a forked child: its changes to torch cannot reach other tests."""

    def run(body: Callable[[], Any]) -> Ran:
        ran = in_child(body, cwd=tmp_path)
        assert ran.code == 0, ran.stderr
        return ran

    return run


def fail() -> None:
    nn.Linear(4, 2)(torch.ones(3, 5))


def fail_and_swallow() -> None:
    try:
        fail()
    except RuntimeError as error:
        print("caught", error)


def train(steps: int = 3) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for (x,) in DataLoader(TensorDataset(torch.randn(2 * steps, 4)), batch_size=2, shuffle=True):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


# what it sees


def test_a_failure_within_the_block_is_found(in_fork: InFork) -> None:
    def body() -> None:
        with whence.watch() as watch:
            fail_and_swallow()
        (finding,) = watch.findings
        assert finding.rule == RULE
        assert watch.closed
        assert watch.report.findings == watch.findings

    assert RULE in in_fork(body).stderr


def test_a_failure_is_found_until_the_watch_is_closed_and_not_after(in_fork: InFork) -> None:
    def body() -> None:
        watch = whence.watch(nn.Linear(1, 1))
        fail_and_swallow()
        report = watch.close()
        fail_and_swallow()
        assert [each.rule for each in report.findings] == [RULE]
        assert watch.report.findings[0].occurrences == 1

    in_fork(body)


def test_a_watch_leaves_its_record_in_a_run_folder(in_fork: InFork, tmp_path: Path) -> None:
    def body() -> None:
        with whence.watch():
            train(3)
            fail_and_swallow()

    in_fork(body)
    (path,) = tmp_path.glob(".whence/*-watch/findings.json")
    document = json.loads(path.read_text())
    assert document["steps"] == 3
    assert [each["rule"] for each in document["findings"]] == [RULE]


def test_the_record_names_the_exception_that_ended_the_block(
    in_fork: InFork, tmp_path: Path
) -> None:
    def body() -> None:
        with pytest.raises(ValueError), whence.watch():
            raise ValueError("no such column")

    in_fork(body)
    (path,) = tmp_path.glob(".whence/*-watch/findings.json")
    assert json.loads(path.read_text())["outcome"]["exception"] == "ValueError: no such column"


def test_a_healthy_block_gives_the_same_numbers_and_no_finding(in_fork: InFork) -> None:
    def body() -> None:
        plain, after = train(), torch.rand(1)
        with whence.watch(quiet=True) as watch:
            assert train() == plain
            assert torch.equal(torch.rand(1), after)
        assert watch.findings == ()
        assert watch.report.steps == 3

    ran = in_fork(body)
    assert (ran.stdout, ran.stderr) == ("", "")


def test_a_watch_can_be_opened_again(in_fork: InFork, tmp_path: Path) -> None:
    def body() -> None:
        for _ in range(2):
            with whence.watch() as watch:
                fail_and_swallow()
            assert len(watch.findings) == 1

    in_fork(body)
    assert len(list(tmp_path.glob(".whence/*/findings.json"))) == 2


# twice


def test_closing_twice_is_harmless_and_says_nothing_twice(in_fork: InFork) -> None:
    def body() -> None:
        watch = whence.watch()
        fail_and_swallow()
        assert watch.close() == watch.close()
        with watch:
            pass

    assert in_fork(body).stderr.count(RULE) == 1


def test_a_second_call_while_one_is_open_gives_the_same_watch(
    in_fork: InFork, tmp_path: Path
) -> None:
    def body() -> None:
        first = whence.watch()
        assert whence.watch() is first
        fail_and_swallow()
        assert first.findings[0].occurrences == 1
        first.close()
        assert whence.watch() is not first

    in_fork(body)


def test_a_block_within_a_block_does_not_end_the_outer_watch(in_fork: InFork) -> None:
    def body() -> None:
        with whence.watch() as outer:
            with whence.watch():
                pass
            assert not outer.closed
            fail_and_swallow()
        assert len(outer.findings) == 1

    in_fork(body)


def test_a_watch_under_whence_run_adds_one_note(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch, whence\nwith whence.watch():\n    torch.nn.Linear(4, 2)(torch.ones(3, 5))\n"
    )
    ran = whence_run(tmp_path / "train.py", cwd=tmp_path)
    assert ran.code == 1
    assert len(ran.findings) == 1
    assert ran.stderr.count(f"\nwhence: {ran.findings[0]['verdict']}") == 1


# nothing is left behind


def patchable() -> dict[tuple[str, str], Any]:
    """Everything in torch and the interpreter that a watch could have changed."""
    owners = [
        torch,
        torch.Tensor,
        torch.autograd,
        torch.autograd.Function,
        nn.functional,
        nn.Module,
        DataLoader,
    ]
    owners += [
        torch.optim.Optimizer,
        torch.optim.SGD,
        torch_dataloader,
        torch_dataloader._BaseDataLoaderIter,
    ]
    owners += [
        torch_dataloader._SingleProcessDataLoaderIter,
        torch_dataloader._MultiProcessingDataLoaderIter,
    ]
    owners += [
        torch_module,
        torch_optimizer,
        torch.utils.data._utils.fetch,
        torch.utils.data._utils.collate,
        Dataset,
    ]
    found = {(str(owner), name): thing for owner in owners for name, thing in vars(owner).items()}
    for name in ("excepthook", "unraisablehook", "displayhook", "stdout", "stderr"):
        found["sys", name] = getattr(sys, name)
    found["threading", "excepthook"] = threading.excepthook
    return found


def hooks() -> dict[str, Any]:
    """Count hooks, modes, callbacks and handlers."""
    counts: dict[str, Any] = {
        f"{owner.__name__}.{name}": len(thing)
        for owner in (torch_module, torch_optimizer)
        for name, thing in vars(owner).items()
        if "hooks" in name and isinstance(thing, dict)
    }
    counts["function modes"] = torch._C._len_torch_function_stack()
    counts["dispatch modes"] = torch._C._len_torch_dispatch_stack()
    counts["gc"] = list(gc.callbacks)
    counts["trace"] = (
        sys.gettrace(),
        sys.getprofile(),
        threading.gettrace(),
        threading.getprofile(),
    )
    counts["signals"] = (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    if (
        top_hooks := getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", None)
    ) is not None:
        counts["saved tensors"] = top_hooks(True)
    counts["threads"] = threading.active_count()
    counts["folder"] = os.getcwd()
    return counts


def assert_untouched(before: dict[tuple[str, str], Any], counted: dict[str, Any]) -> None:
    after = patchable()
    assert [key for key, thing in before.items() if after.get(key) is not thing] == []
    assert hooks() == counted


def test_all_that_was_patched_is_the_original_object_again(in_fork: InFork) -> None:
    def body() -> None:
        train()  # what torch itself sets up on first use
        before, counted = patchable(), hooks()
        with whence.watch():
            assert [key for key, thing in patchable().items() if before.get(key) is not thing]
            train()
            fail_and_swallow()
        assert_untouched(before, counted)

    in_fork(body)


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_when_an_exception_ends_the_block(
    in_fork: InFork, kind: type[BaseException]
) -> None:
    def body() -> None:
        before, counted = patchable(), hooks()
        with pytest.raises(kind), whence.watch():
            raise kind
        assert_untouched(before, counted)

    in_fork(body)


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_nothing_is_left_when_a_watch_is_closed_within_a_mode_of_the_program(
    in_fork: InFork,
) -> None:
    def body() -> None:
        before, counted = patchable(), hooks()
        watch = whence.watch()
        with Passing():
            watch.close()
        assert_untouched(before, counted)

    in_fork(body)


def test_nothing_is_left_when_a_watch_is_opened_within_a_mode_and_closed_outside(
    in_fork: InFork,
) -> None:
    def body() -> None:
        before, counted = patchable(), hooks()
        with Passing():
            watch = whence.watch()
            torch.ones(1)
        watch.close()
        assert_untouched(before, counted)

    in_fork(body)


def test_nothing_is_left_when_a_default_device_was_set_meanwhile(in_fork: InFork) -> None:
    def body() -> None:
        before, counted = patchable(), hooks()
        with whence.watch():
            torch.set_default_device("meta")
            assert torch.ones(1).is_meta
        assert torch.ones(1).is_meta
        torch.set_default_device(None)
        assert_untouched(before, counted)

    in_fork(body)


@pytest.mark.parametrize(
    ("owner", "name"), [(nn.Module, "__init__"), (DataLoader, "__init__"), (torch, "from_numpy")]
)
def test_a_patch_that_the_program_made_meanwhile_stays(
    in_fork: InFork, owner: Any, name: str
) -> None:
    def body() -> None:
        with whence.watch():
            inner = getattr(owner, name)

            def mine(*args: Any, **kwargs: Any) -> Any:
                return inner(*args, **kwargs)

            setattr(owner, name, mine)
        assert getattr(owner, name) is mine
        train()

    in_fork(body)


def test_a_model_and_a_loader_made_under_the_watch_hold_nothing_of_it(in_fork: InFork) -> None:
    def body() -> None:
        with whence.watch():
            model, loader = (
                nn.Linear(4, 2),
                DataLoader(TensorDataset(torch.ones(4, 4)), batch_size=2),
            )
            model(next(iter(loader))[0]).sum().backward()
        for thing in (model, loader, model.weight, model.weight.grad):
            assert b"whence" not in pickle.dumps(thing)
        assert set(vars(model)) == set(vars(nn.Linear(4, 2)))

    in_fork(body)


def test_a_closed_watch_keeps_no_model_alive(in_fork: InFork) -> None:
    def body() -> None:
        import weakref

        with whence.watch() as watch:
            model = nn.Linear(4, 2)
            model(torch.ones(1, 4)).sum().backward()
            fail_and_swallow()
        gone = weakref.ref(model)
        del model
        gc.collect()
        assert gone() is None
        assert len(watch.findings) == 1

    in_fork(body)


# copies


@pytest.mark.parametrize(
    "copied", [lambda watch: pickle.loads(pickle.dumps(watch)), copy.copy, copy.deepcopy]
)
def test_a_copy_is_a_closed_watch_and_leaves_the_original_open(
    in_fork: InFork, copied: Callable[[Any], Any]
) -> None:
    def body() -> None:
        with whence.watch() as watch:
            twin = copied(watch)
            assert twin.closed
            twin.close()
            assert whence.watch() is watch
            fail_and_swallow()
            assert not watch.closed
        assert len(watch.findings) == 1

    in_fork(body)


def test_a_model_that_holds_its_watch_can_be_saved(in_fork: InFork) -> None:
    def body() -> None:
        model = nn.Linear(2, 2)
        with whence.watch(model) as watch:
            model.watch = watch  # type: ignore[assignment]
            torch.save(model, "model.pt")
        assert torch.load("model.pt", weights_only=False).watch.closed

    in_fork(body)


# exceptions


def test_the_exception_passes_through_with_one_note_and_no_frame_of_whence(in_fork: InFork) -> None:
    def body() -> None:
        try:
            with whence.watch() as watch:
                fail()
        except RuntimeError as caught:
            error = caught
        (finding,) = watch.findings
        (note,) = error.__notes__
        assert note.startswith(f"whence: {finding.verdict}")
        assert "mat1 and mat2 shapes cannot be multiplied" in str(error)
        frames = [each.filename for each in traceback.extract_tb(error.__traceback__)]
        assert [each for each in frames if f"{os.sep}whence{os.sep}" in each] == []
        assert watch.closed

    in_fork(body)


def test_an_exception_that_whence_cannot_explain_passes_as_it_is(in_fork: InFork) -> None:
    def body() -> None:
        error = ValueError("no such column")
        with pytest.raises(ValueError) as caught, whence.watch():
            raise error
        assert caught.value is error
        assert not hasattr(error, "__notes__")
        assert error.__context__ is None

    in_fork(body)


def test_a_note_speaks_of_this_exception_and_not_of_an_earlier_one(in_fork: InFork) -> None:
    def body() -> None:
        error = RuntimeError("out of cheese")
        with pytest.raises(RuntimeError, match="cheese"), whence.watch():
            fail_and_swallow()
            raise error
        assert not any("Linear" in note for note in getattr(error, "__notes__", []))

    in_fork(body)


def test_leaving_with_sys_exit_and_ctrl_c_is_not_explained(in_fork: InFork) -> None:
    def body() -> None:
        for kind in (SystemExit, KeyboardInterrupt):
            with pytest.raises(kind), whence.watch() as watch:
                raise kind
            assert watch.findings == ()

    in_fork(body)


# Whence raises nothing into the program


def test_a_working_folder_that_cannot_be_written_does_not_stop_training(
    in_fork: InFork, tmp_path: Path
) -> None:
    (tmp_path / ".whence").write_text("a file where the folder should be")

    def body() -> None:
        with whence.watch() as watch:
            assert len(train()) == 3
            fail_and_swallow()
        assert len(watch.findings) == 1

    in_fork(body)


def test_a_broken_sensor_says_so_once_and_training_goes_on(in_fork: InFork) -> None:
    def body() -> None:
        from whence.tape.scopes import ModuleBook

        def broken(*_args: Any) -> None:
            raise ZeroDivisionError("an internal fault")

        ModuleBook.note_construction = broken  # type: ignore
        with whence.watch() as watch:
            train()
            train()
        assert len(watch.report.not_watched) == 1
        assert "an internal fault" in watch.report.not_watched[0]

    assert in_fork(body).stderr.count("an internal fault") == 1


def test_forked_workers_are_not_watched(in_fork: InFork) -> None:
    def body() -> None:
        before = hooks()["function modes"]
        with whence.watch():
            child = os.fork()
            if child == 0:
                os._exit(hooks()["function modes"] - before)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    in_fork(body)


# the entry point


@pytest.mark.parametrize(
    "name", ["whence", "whence.finding", "whence.report.terminal", "whence.config"]
)
def test_importing_whence_does_not_import_torch(name: str) -> None:
    code = f"import {name}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0


def test_the_front_door_has_what_it_promises_and_nothing_else() -> None:
    assert all(getattr(whence, name) is not None for name in whence.__all__)
    assert dir(whence) == sorted(whence.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nosuch'"):
        _ = whence.nosuch
