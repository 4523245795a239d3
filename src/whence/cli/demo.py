"""Run a bundled broken program and show its diagnosis. Default: the first program.

example: whence demo
         whence demo --list
         whence demo dtype/float64-input--dataset
"""

from __future__ import annotations

import os
from pathlib import Path

from whence.cli import run
from whence.cli.outputs import Parser
from whence.config import UsageError

FIRST = "shape/linear-features"


def cases_folder() -> Path:
    """Find the broken programs: in the installed package, or next to `src` in a checkout."""
    here = Path(__file__).resolve().parent.parent
    installed = here / "cases"
    return installed if installed.is_dir() else here.parent.parent / "cases"


def names() -> list[str]:
    root = cases_folder()
    return sorted(str(path.parent.relative_to(root)) for path in root.glob("*/*/broken.py"))


def main(arguments: list[str]) -> int | run.Run:
    parser = Parser(prog="whence demo", description=__doc__)
    parser.add_argument("name", nargs="?", default=FIRST, help="family/kind of the broken program")
    parser.add_argument("--list", action="store_true", help="list the bundled programs")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(names()))
        return 0
    script = cases_folder() / options.name / "broken.py"
    if not script.is_file():
        near = [each for each in names() if options.name.split("/")[-1] in each]
        hint = (
            f"; did you mean {', '.join(near[:4])}?"
            if near
            else "; `whence demo --list` lists them"
        )
        raise UsageError(f"no demo named {options.name!r}{hint}")
    return run.main([os.path.relpath(script)])
