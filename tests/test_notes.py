"""Notes are never more than notes."""

from __future__ import annotations

from pathlib import Path

from forking import whence_run


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
