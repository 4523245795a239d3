"""Paranoid mode detects each violation, and is silent about a program that is left alone."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from both import PROGRAMS, start


def _violations(
    program: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, str]]:
    monkeypatch.setenv("WHENCE_PARANOID", "1")
    words = ["-m", "whence", "run", str(PROGRAMS / program)]
    process = start(words, folder, violations=folder / "violations.jsonl")
    _, complaints = process.communicate()
    assert process.returncode == 0, complaints
    found = folder / "violations.jsonl"
    return [json.loads(each) for each in found.read_text().splitlines()] if found.exists() else []


def test_paranoid_mode_notices_each_kind_of_violation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = _violations("tampered.py", tmp_path, monkeypatch)
    below = [each["what"] for each in found if each["kind"] == "program below whence"]
    # Neither the program's signal handler nor a finaliser that the collector runs.
    names = [re.sub(r".*:\d+ (\S+) is run.*", r"\1", each) for each in below]
    assert names == ["mine", "CallableMixin.__call__"], below
    kinds = Counter(each["kind"] for each in found if each["kind"] != "program below whence")
    assert kinds.pop("live objects") >= 1
    expected = dict.fromkeys(
        (
            "grad mode", "torch random", "random", "signal handlers", "threads", "dispatch modes",
            "saved-tensor hooks", "default dtype", "sys.stderr", "recursion limit",
            "weights and buffers",
        ),
        1,
    )  # fmt: skip
    if not hasattr(torch._C._autograd, "_top_saved_tensors_default_hooks"):
        # torch before 2.8 does not expose them.
        del expected["saved-tensor hooks"]
    assert kinds == expected


def test_paranoid_mode_is_silent_where_nothing_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _violations("small.py", tmp_path, monkeypatch) == []
