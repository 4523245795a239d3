"""Healthy programs in paranoid mode: no program code below Whence, no trace of a check."""

from __future__ import annotations

from pathlib import Path

import pytest
from cases import HEALTHY
from forking import whence_run


@pytest.mark.parametrize("script", HEALTHY[::12], ids=lambda path: path.parent.name)
def test_program_is_left_alone_in_paranoid_mode(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHENCE_PARANOID", "1")
    # It fails by itself if there is a violation.
    ran = whence_run(script, cwd=tmp_path)
    assert (ran.code, ran.loud) == (0, []), ran.stderr
