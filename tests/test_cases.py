"""The contract of every rule: it reports its broken case at the right line and nothing else."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest
from forking import Ran, plain_run, whence_run

from cases import ALL, BROKEN, FIXED, HANGING, HEALTHY, Case, copied
from whence.rules.rule import rule_ids


def _named(case: Case, ran: Ran) -> dict[str, Any]:
    rule = case.expected["rule"]
    quiet = case.expected.get("severity") == "info"
    found = [each for each in (ran.findings if quiet else ran.loud) if each["rule"] == rule]
    assert found, (
        f"{rule} was not named; said: "
        f"{[(each['rule'], each['verdict']) for each in ran.findings]}\n{ran.stderr}"
    )
    return found[0]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_broken_program_is_named_at_its_origin(case: Case, tmp_path: Path) -> None:
    script = copied(case, tmp_path) / "broken.py"
    ran = whence_run(_probe(script, tmp_path) if _runs_on(case) else script, cwd=tmp_path)
    finding = _named(case, ran)
    if _runs_on(case):
        assert ran.stdout == plain_run(_probe(script, tmp_path), cwd=tmp_path).stdout
    origin = finding["origin"]
    assert (Path(origin["file"]).name, origin["line"]) == (case.origin_file, case.origin_line), (
        ran.stderr
    )
    # One cause, one finding.
    assert [each["rule"] for each in ran.loud] in (
        [case.expected["rule"]] * case.expected.get("findings", 1),
        [],
    )
    if "sample" in case.expected:
        assert origin["sample"]["dataset_index"] == case.expected["sample"]["dataset_index"]
    for key in ("op", "phase"):
        assert origin[key] == case.expected.get(key, origin[key])
    if "exception" in case.expected and not case.expected.get("caught", False):
        expected = case.expected["exception"]
        expected = (expected,) if isinstance(expected, str) else tuple(expected)
        assert ran.document["outcome"]["exception"].startswith(expected)
        plain = plain_run(script, cwd=tmp_path)
        assert (ran.code, ran.stdout) == (plain.code, plain.stdout)
        # How torch reports a dead worker depends on who notices it first.
        said = ran.document["outcome"]["exception"].strip()
        assert (
            said.split(":")[0] if case.expected["rule"] == "data/worker-failure" else said
        ) in plain.stderr
    assert ran.document["not_watched"] == []
    if finding["rule"].startswith("nonfinite/"):
        _repro_fails_in_the_same_way(case, finding, tmp_path)
    if case.expected.get("patch"):
        _patch_mends(case, script, finding, tmp_path)


def _runs_on(case: Case) -> bool:
    """Whether the program runs to its end: one watched run shows findings and final state."""
    return "exception" not in case.expected or case.expected.get("caught", False)


def _repro_fails_in_the_same_way(case: Case, finding: dict[str, Any], folder: Path) -> None:
    """The script needs torch alone, and fails with an assertion that names the operation."""
    script = next(folder.glob(".whence/*/repro.py"), None)
    assert (script is not None) == case.expected.get("repro", True)
    if script is None:
        return
    ran = plain_run(script, cwd=folder)
    assert ran.code == 1
    assert "AssertionError" in ran.stderr
    if finding["rule"] in ("nonfinite/forward", "nonfinite/backward", "nonfinite/overflow"):
        named = finding["origin"]["op"] in ran.stderr
        assert named or "autograd.Function" in (case.folder / "broken.py").read_text()


def _program(script: Path) -> str:
    """The code of a program, without its comments."""
    return ast.dump(ast.parse(script.read_text()))


def _patch_mends(case: Case, script: Path, finding: dict[str, Any], folder: Path) -> None:
    assert finding["patch"] is not None, "the case promises a patch"
    applied = subprocess.run(
        ["patch", "-p1"], input=finding["patch"].encode(), cwd=folder, capture_output=True
    )
    assert applied.returncode == 0, applied.stdout.decode() + finding["patch"]
    if _program(script) == _program(case.folder / "fixed.py"):
        # That program has its own test.
        return
    again = whence_run(script, cwd=folder)
    assert again.loud == [], again.stderr
    assert again.code == 0, again.stderr


@pytest.mark.parametrize(
    "script",
    [*FIXED, *HEALTHY],
    ids=lambda path: str(path.parent.parent.name + "/" + path.parent.name),
)
def test_right_program_hears_nothing_and_is_left_alone(script: Path, tmp_path: Path) -> None:
    # The broken program is compared with a plain run, and its twin does the same: one run
    # is enough.
    is_twin = script.name == "fixed.py"
    probe = script if is_twin else _probe(script, tmp_path)
    watched = whence_run(probe, cwd=tmp_path)
    assert watched.loud == [], watched.stderr
    assert watched.code == 0
    assert watched.document["not_watched"] == []
    if not is_twin:
        assert watched.stdout == plain_run(probe, cwd=tmp_path).stdout


def _probe(script: Path, folder: Path) -> Path:
    probe = folder / "probe.py"
    probe.write_text(PROBE.format(script=str(script)))
    return probe


# Runs a program as __main__ and prints its final state: each reachable tensor, and the next random
# numbers.
PROBE = """
import hashlib, random, runpy, sys
from pathlib import Path
script = {script!r}
sys.path[0] = str(Path(script).parent)
import numpy, torch
random.seed(0), numpy.random.seed(0), torch.manual_seed(0)
names = {{}}
try:
    names = runpy.run_path(script, run_name="__main__")
except Exception as error:
    print("raised:", type(error).__name__, str(error).replace(chr(10), " ")[:200])
digest = hashlib.sha256()
def add(name, tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    digest.update(name.encode() + flat.view(torch.uint8).numpy().tobytes())
for name, thing in sorted(names.items(), key=lambda each: each[0]):
    if isinstance(thing, torch.nn.Module):
        for key, tensor in thing.state_dict().items():
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                add(key, tensor.detach().to_dense())
    elif type(thing) is torch.Tensor and not thing.is_meta and not thing.is_sparse:
        add(name, thing)
drawn = torch.rand(2).tolist(), numpy.random.rand(2).tolist(), random.random()
print("left:", digest.hexdigest(), *drawn)
"""


@pytest.mark.parametrize("case", HANGING, ids=lambda case: case.name)
def test_program_that_stands_still_is_named_where_it_waits(case: Case, tmp_path: Path) -> None:
    ran = whence_run(case.folder / "broken.py", "--hang-after", "2", cwd=tmp_path, patience=12)
    assert ran.code < 0, "it ended by itself"
    found = [each for each in ran.loud if each["rule"] == case.expected["rule"]]
    assert [each["origin"]["line"] for each in found] == [case.origin_line], ran.stderr


def test_at_least_half_of_the_failing_cases_have_a_patch() -> None:
    failing = [
        case
        for case in BROKEN
        if "exception" in case.expected or case.expected["rule"].startswith("nonfinite/")
    ]
    assert sum(case.expected.get("patch", False) for case in failing) * 2 >= len(failing)


def test_every_case_names_a_rule_that_exists() -> None:
    assert {case.expected["rule"] for case in BROKEN} <= set(rule_ids())


def test_every_rule_has_a_case() -> None:
    # dtype/promoted is a note about programs that work: tests/test_findings.py has its case.
    assert set(rule_ids()) - {case.expected["rule"] for case in ALL} == {"dtype/promoted"}
