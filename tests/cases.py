"""The broken programs, their fixed twins and the healthy programs of cases/."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "cases"
MARK = "# ORIGIN"
PARANOID = ROOT / "tests" / "left_alone" / "paranoid"


@dataclass(frozen=True)
class Case:
    folder: Path

    @property
    def name(self) -> str:
        return str(self.folder.relative_to(CASES))

    @cached_property
    def expected(self) -> dict[str, Any]:
        return tomllib.loads((self.folder / "expect.toml").read_text())

    @property
    def origin_file(self) -> str:
        return str(self.expected.get("file", "broken.py"))

    @property
    def origin_line(self) -> int:
        lines = (self.folder / self.origin_file).read_text().splitlines()
        marked = [number for number, line in enumerate(lines, 1) if line.rstrip().endswith(MARK)]
        assert len(marked) == 1, f"{self.name}: {len(marked)} lines are marked {MARK}"
        return marked[0]


def _can_run(case: Case) -> bool:
    """Skip programs whose package or torch version is missing: `needs`, `torch` in expect.toml."""
    return all(
        find_spec(each) is not None for each in case.expected.get("needs", ())
    ) and _has_torch(case.folder)


def _has_torch(folder: Path) -> bool:
    """Whether this torch is new enough for a program or its diagnosis. See docs/usage.md."""
    expected = folder / "expect.toml"
    asked = tomllib.loads(expected.read_text()).get("torch", "0") if expected.exists() else "0"
    return _number(torch.__version__) >= _number(asked)


def _number(version: str) -> list[int]:
    return [int(each) for each in re.findall(r"\d+", version.partition("+")[0])]


ALL = [case for path in sorted(CASES.glob("*/*/broken.py")) if _can_run(case := Case(path.parent))]
BROKEN = [each for each in ALL if not each.expected.get("hang")]
HANGING = [each for each in ALL if each.expected.get("hang")]
"""Programs that never end by themselves."""
FIXED = [case.folder / "fixed.py" for case in ALL if (case.folder / "fixed.py").exists()]
HEALTHY = [each for each in sorted(CASES.glob("healthy/*/healthy.py")) if _has_torch(each.parent)]


def copied(case: Case, target: Path) -> Path:
    """Copy the case to a folder that may be changed."""
    return Path(shutil.copytree(case.folder, target / "case"))


def assert_nothing_violated(violations: Path) -> None:
    """Fail with the violations that a paranoid process has recorded."""
    if not violations.exists():
        return
    violations = []
    for line in violations.read_text().splitlines():
        found = json.loads(line)
        violations += [
            f"{found['kind']}: {found['what']}",
            *("  " + " < ".join(each) for each in found["stacks"]),
        ]
    raise AssertionError("\n".join(["Whence did not leave the program alone", *violations]))
