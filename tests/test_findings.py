"""Number and severity of findings: notes stay notes, two faults are two findings, repeats count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from forking import plain_run, whence_run

from cases import BROKEN, copied
from whence.finding import Confidence, Finding, Origin, Severity, Symptom


@pytest.mark.parametrize(
    ("confidence", "loudest"),
    [(Confidence.PROVEN, "error"), (Confidence.LIKELY, "warning"), (Confidence.HINT, "info")],
)
def test_what_is_not_proven_is_never_an_error(confidence: Confidence, loudest: str) -> None:
    origin = Origin("train.py", 1, "x", "f", None, None, "program", 0)
    symptom = Symptom("train.py", 1, "x", 0, "")
    proven = Finding(
        "shape/mismatch", Severity.ERROR, Confidence.PROVEN, "", origin, symptom, "", ""
    )
    assert replace(proven, confidence=confidence).severity == loudest
    assert replace(proven, severity=Severity.INFO, confidence=confidence).severity == "info"


def test_promotion_is_a_note_at_the_line_where_the_types_meet(tmp_path: Path) -> None:
    script = tmp_path / "mix.py"
    script.write_text(
        "import torch\n"
        "counts = torch.tensor([1, 2, 3], dtype=torch.int32)\n"
        "prices = torch.tensor([4.0, 5.0, 6.0])\n"
        "print(counts * prices, counts * 2, prices * (counts > 1))\n"
    )
    ran = whence_run(script, cwd=tmp_path)
    assert [(each["rule"], each["severity"], each["origin"]["line"]) for each in ran.findings] == [
        ("dtype/promoted", "info", 4)
    ]
    assert ran.code == 0


def test_a_failure_with_a_sound_fallback_is_a_note(tmp_path: Path) -> None:
    script = tmp_path / "fallback.py"
    script.write_text(
        "import torch\n"
        "x = torch.ones(4, 6).t()\n"
        "try:\n    y = x.view(24)\nexcept RuntimeError:\n    y = x.reshape(24)\n"
        "print(y.shape)\n"
    )
    ran = whence_run(script, cwd=tmp_path)
    assert ran.loud == []


def test_both_faults_of_a_call_are_named(tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(
        "import numpy as np\nimport torch\n"
        "table = np.ones((8, 6))\n"
        "model = torch.nn.Linear(5, 1)\n"
        "model(torch.from_numpy(table))\n"
    )
    ran = whence_run(script, cwd=tmp_path)
    assert [(each["rule"], each["origin"]["line"]) for each in ran.loud] == [
        ("dtype/float64-input", 3),
        ("shape/linear-features", 3),
    ]


def test_the_same_failure_again_is_counted_and_not_repeated(tmp_path: Path) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import torch\nmodel = torch.nn.Linear(5, 1)\nx = torch.ones(2, 6)\n"
        "for _ in range(7):\n    try:\n        model(x)\n"
        "    except RuntimeError as error:\n        print(error)\n"
    )
    ran = whence_run(script, cwd=tmp_path)
    assert [(each["rule"], each["occurrences"]) for each in ran.loud] == [
        ("shape/linear-features", 7)
    ]
    assert ran.stderr.count("whence error") == 1


def test_a_skip_connection_leads_to_the_size_of_the_pictures_and_names_those_that_fit(
    tmp_path: Path,
) -> None:
    script = (
        copied(next(each for each in BROKEN if each.name == "shape/skip-connection"), tmp_path)
        / "broken.py"
    )
    (found,) = whence_run(script, cwd=script.parent).loud
    assert [(each["file"], each["line"], each["code"]) for each in found["chain"]] == [
        ("broken.py", 6, "SIZE = 50")
    ]
    assert "48 or 52 px fit instead of 50" in found["fix"]


def test_what_a_parametrised_weight_computes_is_no_line_of_the_program(tmp_path: Path) -> None:
    script = tmp_path / "orthogonal.py"
    script.write_text(
        "import torch\n"
        "layer = torch.nn.utils.parametrizations.orthogonal(torch.nn.Linear(6, 4))\n"
        "weight = layer.weight\n"
        "print((weight @ weight.T).diagonal())\n"
    )
    assert whence_run(script, cwd=tmp_path).findings == []


def test_types_that_autocast_mixes_are_not_told(tmp_path: Path) -> None:
    script = tmp_path / "residual.py"
    script.write_text(
        "import torch\n"
        "layer = torch.nn.Linear(4, 4)\n"
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n"
        "    x = torch.ones(2, 4)\n"
        "    x = x + layer(x)\n"
        "print(x.dtype)\n"
    )
    assert whence_run(script, cwd=tmp_path).findings == []


def test_a_teacher_and_a_label_have_two_aims(tmp_path: Path) -> None:
    script = tmp_path / "taught.py"
    script.write_text(
        "import torch\n"
        "from torch.nn import functional as F\n"
        "torch.manual_seed(0)\n"
        "student, teacher = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3).requires_grad_(False)\n"
        "optimizer = torch.optim.SGD(student.parameters(), lr=0.5)\n"
        "x = torch.randn(64, 5)\n"
        "label = teacher(x).argmax(1)\n"
        "for _ in range(40):\n"
        "    said = student(x)\n"
        "    soft = F.kl_div(F.log_softmax(said / 2, 1), F.softmax(teacher(x) / 2, 1), "
        "reduction='batchmean')\n"
        "    loss = 4 * soft + 0.2 * F.cross_entropy(said, label)\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
    )
    assert whence_run(script, cwd=tmp_path).findings == []


def test_what_is_said_draws_no_random_number_of_the_programs(tmp_path: Path) -> None:
    script = tmp_path / "drawn.py"
    script.write_text(
        "import random, torch\n"
        "random.seed(0)\n"
        "try:\n    torch.ones(2, 3) @ torch.ones(2, 3)\nexcept RuntimeError as error:\n"
        "    print('refused')\n"
        "for _ in range(3):\n    torch.ones(2) + 1\n"
        "print(random.random())\n"
    )
    assert whence_run(script, cwd=tmp_path).stdout == plain_run(script, cwd=tmp_path).stdout
