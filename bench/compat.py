"""Run the whole test suite on every supported torch and Python.

Build an environment for each below `.venv-compat/`, run pytest in it and print a table.

    python bench/compat.py                     all of them
    python bench/compat.py torch-2.15.0        one
    python bench/compat.py -- -k sensors       all of them, with options for pytest
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-compat"


@dataclass(frozen=True, slots=True)
class Environment:
    name: str
    python: str
    torch: str


ENVIRONMENTS = (
    Environment("torch-2.4.1", "3.11", "2.4.1"),
    Environment("torch-2.15.0", "3.11", "2.15.0"),
    Environment("python-3.12", "3.12", "2.13.0"),
    Environment("python-3.13", "3.13", "2.13.0"),
)


def interpreter(version: str) -> str | None:
    """Find a Python of this version: on the path, this one, or one of pyenv's."""
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return sys.executable
    on_path = shutil.which(f"python{version}")
    # pyenv puts a script on the path for installed versions that are not selected.
    if on_path is not None and _runs(on_path):
        return on_path
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = [each / "bin" / "python" for each in versions.glob(f"{version}.*")]
    newest = max(found, key=lambda each: _number(each.parent.parent.name), default=None)
    return str(newest) if newest is not None else None


def _runs(python: str) -> bool:
    return subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def build(environment: Environment, python: str) -> Path:
    """Return the environment's interpreter; reuse one built for the same requirements."""
    folder = FOLDER / environment.name
    wanted = requirements(environment)
    done = folder / ".requirements"
    if not done.exists() or done.read_text() != "\n".join(wanted):
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, *wanted], check=True)
        subprocess.run([*pip, "--no-deps", "--editable", str(ROOT)], check=True)
        done.write_text("\n".join(wanted))
    return folder / "bin" / "python"


def requirements(environment: Environment) -> list[str]:
    """List the requirements of constraints.txt, with this torch version."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {
        each.partition("==")[0]: each for each in lines if "==" in each and not each.startswith("#")
    }
    pinned["torch"] = f"torch=={environment.torch}"
    names = [re.split(r"[<>=!~\[ ]", each)[0] for each in wanted]
    return [pinned.get(name, each) for name, each in zip(names, wanted, strict=True)]


def run(environment: Environment, options: list[str]) -> str:
    """The cells of the table after the name: passed, failed, skipped."""
    python = interpreter(environment.python)
    if python is None:
        return f"no python{environment.python} on the path or in pyenv"
    try:
        ours = build(environment, python)
    except subprocess.CalledProcessError as error:
        return f"could not be built (exit code {error.returncode})"
    result = FOLDER / f"{environment.name}.xml"
    result.unlink(missing_ok=True)
    command = [
        str(ours),
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        f"--junit-xml={result}",
        *options,
    ]
    subprocess.run(command, cwd=ROOT, check=False)
    return counted(result) if result.exists() else "pytest did not finish"


def counted(result: Path) -> str:
    suites = ElementTree.parse(result).getroot().iter("testsuite")
    tests = failed = skipped = 0
    for suite in suites:
        tests += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return f"{tests - failed - skipped:7} {failed:7} {skipped:7}"


def main(arguments: list[str]) -> int:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    names, options = arguments[:at], arguments[at + 1 :]
    unknown = set(names) - {each.name for each in ENVIRONMENTS}
    if unknown:
        known = ", ".join(each.name for each in ENVIRONMENTS)
        print(
            f"no environment is called {', '.join(sorted(unknown))}; expected some of {known}",
            file=sys.stderr,
        )
        return 2
    chosen = [each for each in ENVIRONMENTS if not names or each.name in names]
    options = options or ["-n", "auto", "--dist", "worksteal"]
    rows = [(each, run(each, options)) for each in chosen]
    print(
        "\n"
        f"{'environment':14} {'python':>6} {'torch':>7} {'passed':>7} {'failed':>7} "
        f"{'skipped':>7}"
    )
    for environment, cells in rows:
        print(f"{environment.name:14} {environment.python:>6} {environment.torch:>7} {cells}")
    return 0 if all(re.fullmatch(r" *\d+ +0 +\d+", cells) for _, cells in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
