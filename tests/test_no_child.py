"""Without children: what needs none is still found; the rest is reported as not watched."""

from __future__ import annotations

from pathlib import Path

import pytest
from forking import whence_run

from cases import BROKEN, HEALTHY, Case, copied

REASON = "forking is switched off (--no-child)"

# Some of each family that needs no child; docs/usage.md has the figures for all cases.
SAME = (
    "checkpoint/not-loaded--put-together",
    "checkpoint/incomplete-resume--schedule",
    "data/label-range--counted-too-early",
    "data/empty-epoch--no-clip-long-enough",
    "data/sorted--chunks",
    "data/zero-variance",
    "device/mismatch",
    "device/unregistered-tensor--before-init",
    "dtype/integer-parameter",
    "dtype/float64-input",
    "dtype/labels--survey-answers",
    "gradient/no-graph",
    "gradient/zero-derivative--both-factors",
    "gradient/in-place--leaf",
    "loss/sign--clipped-policy",
    "loss/broadcast--criterion-of-an-object",
    "memory/graph-kept--class-of-its-own",
    "nonfinite/forward--acos",
    "nonfinite/backward--where-log",
    "nonfinite/overflow--half-loss",
    "optimizer/missing-zero-grad",
    "optimizer/learning-rate-high",
    "optimizer/missing-parameter--added-later",
    "precision/clip-before-unscale",
    "shape/linear-features--functional",
    "shape/channels--layers",
    "shape/batch-mismatch--crops",
)

# Lost, because the program's own code would have to run again.
LESS = {
    "dtype/float64-input--dataset": "samples could not be fetched again",
    "nonfinite/update--own-optimizer": "the optimizer step could not be run again",
    "nonfinite/gradient-applied--hook": "gradient hooks could not be run again",
}
SILENT = {
    "data/mutated-sample--normalize": "samples could not be fetched again",
    "gradient/wrong-custom--swish": "a step with the program's own code could not be replayed",
    "distributed/sampler-epoch": "the order of the samples could not be drawn again",
    "data/misaligned--mixed-by-a-helper": "the code before training could not be run again",
    "shape/reshape-as-permute--before-training": "the code before training could not be run again",
}


def _case(name: str) -> Case:
    return next(each for each in BROKEN if each.name == name)


@pytest.mark.parametrize("name", SAME)
def test_what_needs_no_child_is_named_at_its_origin(name: str, tmp_path: Path) -> None:
    case = _case(name)
    ran = whence_run(copied(case, tmp_path) / "broken.py", "--no-child", cwd=tmp_path)
    said = ran.findings if case.expected.get("severity") == "info" else ran.loud
    named = [each for each in said if each["rule"] == case.expected["rule"]]
    assert named, ran.stderr
    origin = named[0]["origin"]
    assert (Path(origin["file"]).name, origin["line"]) == (case.origin_file, case.origin_line), (
        ran.stderr
    )
    assert all(each.endswith(REASON) for each in ran.document["not_watched"])


@pytest.mark.parametrize("name", LESS)
def test_a_finding_that_lacks_its_origin_says_so(name: str, tmp_path: Path) -> None:
    case = _case(name)
    ran = whence_run(copied(case, tmp_path) / "broken.py", "--no-child", cwd=tmp_path)
    named = [each for each in ran.loud if each["rule"] == case.expected["rule"]]
    assert named, ran.stderr
    assert named[0]["origin"]["line"] != case.origin_line
    gap = f"The origin may be further back: {LESS[name]}, because {REASON}"
    assert named[0]["confidence"] == "likely" or gap in named[0]["why"]
    assert any(LESS[name] in each for each in ran.document["not_watched"])


@pytest.mark.parametrize("name", SILENT)
def test_what_is_not_found_is_reported_as_not_watched(name: str, tmp_path: Path) -> None:
    ran = whence_run(copied(_case(name), tmp_path) / "broken.py", "--no-child", cwd=tmp_path)
    assert ran.loud == []
    said = [each for each in ran.document["not_watched"] if each.endswith(f", because {REASON}")]
    assert len(said) == 1
    assert SILENT[name] in said[0]
    assert said[0] in " ".join(ran.stderr.split())


@pytest.mark.parametrize("script", HEALTHY[::40], ids=lambda path: path.parent.name)
def test_a_healthy_program_hears_nothing(script: Path, tmp_path: Path) -> None:
    ran = whence_run(script, "--no-child", cwd=tmp_path)
    assert (ran.code, ran.loud) == (0, []), ran.stderr
