"""Programs that do unusual, legitimate things run the same with and without the watch."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
import torch
import torch.distributed

from both import PROGRAMS, assert_watched, run_both, same, same_process, start

PATIENCE_SECONDS = 60


# Code that runs again


@pytest.mark.parametrize("args", ["float32", "autocast", "deep autocast"])
def test_checkpointed_layer_with_nan_input_is_recomputed_once(args: str, tmp_path: Path) -> None:
    watched = same("checkpoint_nan.py", *args.split(), folder=tmp_path)
    # torch ends the recomputation early with its own exception, which is not a failure.
    # A check at that point would save tensors below checkpoint's hooks, which counts them.
    assert "_StopRecomputationError" not in watched.stderr


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_fsdp2_storage_that_was_freed_is_not_read(tmp_path: Path) -> None:
    if not hasattr(importlib.import_module("torch.distributed.fsdp"), "fully_shard"):
        pytest.skip("this torch has no torch.distributed.fsdp.fully_shard")
    same_process("fsdp2.py", folder=tmp_path)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_compiled_batchnorm_sees_each_batch_once(backend: str, tmp_path: Path) -> None:
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("inductor needs a C++ compiler")
    same("compiled_batchnorm.py", backend, folder=tmp_path)


def test_scripted_batchnorm_sees_each_batch_once(tmp_path: Path) -> None:
    same("scripted_batchnorm.py", folder=tmp_path)


def test_functions_that_modes_are_shown_by_a_helper_compute_the_same(tmp_path: Path) -> None:
    same("handed_over.py", folder=tmp_path, trains=False)


@pytest.mark.parametrize(
    "which", ["mse_loss", "layer_norm", "softmax", "backward", "mock_wraps", "mock_side_effect"]
)
def test_patched_function_is_called_only_by_the_program(which: str, tmp_path: Path) -> None:
    same("patched_functions.py", which, folder=tmp_path)


def test_autograd_function_with_state_runs_once_per_call(tmp_path: Path) -> None:
    same("function_state.py", folder=tmp_path)


@pytest.mark.parametrize("which", ["map", "stream", "generator"])
def test_dataset_is_asked_only_by_the_program(which: str, tmp_path: Path) -> None:
    same("datasets.py", which, folder=tmp_path)


def test_special_methods_of_objects_in_locals_are_not_called(tmp_path: Path) -> None:
    # Under a profile function Python itself keeps a copy of each frame's variables, and with it the
    # objects: they die when anybody reads the frame.
    same("special_methods.py", folder=tmp_path, paranoid=False)


def test_dict_that_locals_returned_stays_as_the_program_left_it(tmp_path: Path) -> None:
    # A profile function makes Python refresh it.
    same("held_locals.py", folder=tmp_path, paranoid=False)


def test_saved_tensor_hooks_see_only_the_program(tmp_path: Path) -> None:
    same("saved_tensors.py", folder=tmp_path)


@pytest.mark.parametrize("where", ["local", "global"])
def test_hooks_of_others_run_as_often_as_without_a_watch(where: str, tmp_path: Path) -> None:
    same("others_hooks.py", where, folder=tmp_path)


def test_wrapper_subclass_dispatches_as_often_as_without_a_watch(tmp_path: Path) -> None:
    same("wrapper_subclass.py", folder=tmp_path)


# Instruments and tracers


@pytest.mark.parametrize(
    "how",
    [
        "export", "make_fx", "make_fx_of_gradient", "functional_call",
        "symbolic_trace", "jit_trace", "jit_script",
    ],
)  # fmt: skip
def test_traced_graph_is_the_same(how: str, tmp_path: Path) -> None:
    same("traced.py", how, folder=tmp_path)


@pytest.mark.parametrize(
    "which", ["flops", "profiler", "dispatch", "function", "subclass", "anomaly"]
)
def test_instrument_counts_only_the_program(which: str, tmp_path: Path) -> None:
    same("instruments.py", which, folder=tmp_path, trains=which != "anomaly")


# What the program can enumerate


def test_threads_and_signal_handlers_are_the_program_s(tmp_path: Path) -> None:
    same_process("threads.py", folder=tmp_path)


@pytest.mark.parametrize("watched", [False, True], ids=["plain", "watched"])
def test_sigterm_ends_a_process_blocked_in_c(watched: bool, tmp_path: Path) -> None:
    words = ["-m", "whence", "run"] if watched else []
    process = start([*words, str(PROGRAMS / "blocked_in_c.py")], tmp_path)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        # A handler could still run between the printed line and the lock.
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        pytest.fail("SIGTERM did not end it")
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGTERM


@pytest.mark.parametrize("what", ["sigchld", "at_fork", "neither"])
def test_children_of_the_watch_are_not_seen(what: str, tmp_path: Path) -> None:
    same_process("forks.py", what, folder=tmp_path)


def test_caught_exception_frees_its_frames_at_once(tmp_path: Path) -> None:
    same_process("caught_exception.py", folder=tmp_path)


def test_modules_nest_as_deep_as_without_a_watch(tmp_path: Path) -> None:
    plain, watched = run_both("nesting.py", folder=tmp_path, paranoid=False)
    assert_watched(watched)
    expected, seen = ([int(each) for each in run.stdout.split()] for run in (plain, watched))
    assert seen[2] == expected[2], "the recursion limit was changed"
    # runpy and `main` are below the program, and each module takes three frames or more.
    assert min(seen[:2]) >= min(expected[:2]) - 2, (seen, expected)


def test_recursion_limit_is_as_far_away_as_without_a_watch(tmp_path: Path) -> None:
    plain, watched = run_both("recursion.py", folder=tmp_path, paranoid=False)
    assert watched.code == plain.code == 0, watched.stderr
    (limit, expected), *calls = (
        [int(each) for each in line.split()] for line in plain.stdout.splitlines()
    )
    (seen_limit, seen), *seen_calls = (
        [int(each) for each in line.split()] for line in watched.stdout.splitlines()
    )
    assert seen_limit == limit
    # Two frames of runpy, the module `whence`, `main`, and `exec` twice.
    assert seen >= expected - 6
    for plain_line, watched_line in zip(calls, seen_calls, strict=True):
        assert all(there >= here - 14 for here, there in zip(plain_line, watched_line, strict=True))
    assert watched.document["steps"] == 4
    assert any(
        "calls sensor failed (RecursionError" in each for each in watched.document["not_watched"]
    )


def test_tracebacks_that_the_program_prints_are_the_same(tmp_path: Path) -> None:
    same("printed_tracebacks.py", folder=tmp_path)


def test_captured_warnings_name_the_same_lines(tmp_path: Path) -> None:
    same_process("warned.py", folder=tmp_path)


@pytest.mark.parametrize("how", ["string", "stdout", "redirected", "closed", "none"])
def test_findings_do_not_land_in_captured_stderr(how: str, tmp_path: Path) -> None:
    watched = same_process("captured_stderr.py", how, folder=tmp_path)
    assert watched.document["findings"]
    assert "shape/" in watched.stderr, "the finding must reach the real stderr"


def test_pytest_suite_with_warnings_as_errors_passes(tmp_path: Path) -> None:
    suite = PROGRAMS / "suite"
    args = (f"--rootdir={suite}", "-c", str(suite / "pytest.ini"), str(suite), "--tb=short", "-q")
    plain, watched = run_both("-m pytest", *args, folder=tmp_path)
    assert plain.code == 0, plain.stdout
    assert watched.code == 0, watched.stdout + watched.stderr
    counts = [
        re.findall(r"\d+ (?:passed|failed|warnings?)", each.stdout) for each in (plain, watched)
    ]
    assert counts[0] == counts[1]
    assert_watched(watched)


# The program's environment


@pytest.mark.parametrize("kind", ["exception", "base", "keyboard"])
def test_exception_of_a_signal_handler_reaches_the_program(kind: str, tmp_path: Path) -> None:
    same_process("signals_that_raise.py", kind, folder=tmp_path, paranoid=False)


def test_interrupt_ends_the_program_as_without_a_watch(tmp_path: Path) -> None:
    watched = same_process("interrupted.py", folder=tmp_path, code=-signal.SIGINT)
    assert "KeyboardInterrupt" in watched.stderr


def test_refused_operands_raise_torch_s_own_exception(tmp_path: Path) -> None:
    same("refused_operands.py", folder=tmp_path, trains=False)


def test_read_only_working_directory_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    if os.access(folder, os.W_OK):
        # Nothing is read-only for root, except the kernel's own file systems.
        folder = Path("/sys")
        if not folder.is_dir():
            pytest.skip("no folder that is read-only for root")
    plain, watched = run_both("small.py", folder=tmp_path, cwd=folder)
    assert plain.code == 0, plain.stderr
    assert (watched.code, watched.stdout) == (0, plain.stdout), watched.stderr
    assert watched.document["steps"] > 0
    kept = re.findall(r"(/\S+)", watched.stderr.strip().splitlines()[-1])
    assert kept, f"it must say where the run is kept: {watched.stderr}"
    assert Path(kept[-1], "findings.json").exists()


@pytest.mark.parametrize("which", ["json", "open", "time", "os", "print", "torch", "modules"])
def test_patched_standard_functions_do_not_break_the_end(which: str, tmp_path: Path) -> None:
    plain, watched = run_both("patched_standard.py", which, folder=tmp_path)
    assert (watched.code, watched.stdout) == (plain.code, plain.stdout), watched.stderr
    assert "Traceback" not in watched.stderr.replace(plain.stderr, ""), watched.stderr
