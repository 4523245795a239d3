"""The broken programs, their mended twins and the healthy ones, as the tests see them."""

from __future__ import annotations

import shutil
import tomllib
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CASES = ROOT / "cases"
MARK = "# ORIGIN"


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
    """Some programs need a package that is not everywhere: `needs` in expect.toml."""
    return all(find_spec(each) is not None for each in case.expected.get("needs", ()))


ALL = [case for path in sorted(CASES.glob("*/*/broken.py")) if _can_run(case := Case(path.parent))]
BROKEN = [each for each in ALL if not each.expected.get("hang")]
HANGING = [each for each in ALL if each.expected.get("hang")]
"""Programs that never end by themselves."""
FIXED = [case.folder / "fixed.py" for case in ALL if (case.folder / "fixed.py").exists()]
HEALTHY = sorted(CASES.glob("healthy/*/healthy.py"))


def copied(case: Case, target: Path) -> Path:
    """A copy of the case that may be changed."""
    return Path(shutil.copytree(case.folder, target / "case"))
