"""The arrows between the rooms point one way, and what must not be imported is not."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "whence"

# Who may import whom, beside itself.
ARROWS = {
    "finding": set(),
    "version": set(),
    "source": {"finding"},
    "data": {"finding"},
    "tape": {"finding", "source"},
    "lineage": {"finding", "source", "tape"},
    "ledgers": {"finding", "source", "tape", "lineage", "data"},
    "rules": {"finding", "source", "tape", "lineage", "ledgers", "data"},
    "config": {"finding", "rules"},
    "record": {"finding", "config", "version"},
    "sensors": {"finding", "source", "tape", "ledgers"},
    "report": {"finding"},
    "repro": {"finding", "source", "tape", "lineage"},
    "watching": {
        "finding",
        "source",
        "tape",
        "lineage",
        "ledgers",
        "rules",
        "config",
        "record",
        "sensors",
        "report",
        "repro",
    },
    "checking": {"finding", "config", "record", "version", "source", "tape", "rules", "sensors", "watching"},
    "survey": {"finding", "config", "data", "lineage", "record", "source", "tape", "watching"},
    "cli": {
        "checking",
        "finding",
        "config",
        "record",
        "report",
        "rules",
        "sensors",
        "source",
        "survey",
        "version",
        "watching",
    },
    "__init__": {"checking", "finding", "watching", "data", "survey", "version"},
    "__main__": {"cli"},
}

# The same within the room where everything comes together.
WITHIN_WATCHING = {
    "__init__": set(),
    "stopping": set(),
    "aside": set(),
    "updates": set(),
    "explaining": set(),
    "diagnosing": set(),
    "asking": set(),
    "movements": {"updates"},
    "studying": {"asking"},
    "auditing": {"asking", "movements", "studying"},
    "course": {"updates"},
    "overshoot": {"course", "updates"},
    "telling": {"diagnosing"},
    "scales": set(),
    "statistics": set(),
    "skip_wire": {"course", "scales", "telling"},
    "update_wire": {"course", "diagnosing", "overshoot", "telling", "updates"},
    "tripwires": {"course", "diagnosing", "scales", "skip_wire", "statistics", "telling", "update_wire", "updates"},
    "functional": {"tripwires"},
    "reenacting": {"telling", "tripwires"},
    "pacing": {"auditing", "studying"},
    "stepping": {"tripwires", "pacing"},
    "routine": {"auditing", "tripwires", "pacing", "studying"},
    # Listeners share the session that they belong to; it is for its type alone that they know of it.
    "listeners": {"listeners", "session", "tripwires", "updates"},
    "session": {
        "aside",
        "auditing",
        "diagnosing",
        "explaining",
        "functional",
        "listeners",
        "pacing",
        "reenacting",
        "routine",
        "stepping",
        "stopping",
        "studying",
        "tripwires",
    },
    "watch": {"session"},
}


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "whence":
            module = node.module or ""
            found |= {f"whence.{each.name}" for each in node.names} if module == "whence" else {module}
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name.split(".")[0] == "whence"}
    return found


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    room = _room(path)
    for module in _imports(path):
        target = module.split(".")[1]
        assert target == room or target in ARROWS[room], f"{room} must not import {target}"


@pytest.mark.parametrize("path", sorted((SOURCE / "watching").rglob("*.py")), ids=lambda path: path.stem)
def test_imports_within_the_watch_follow_the_arrows(path: Path) -> None:
    part = path.relative_to(SOURCE / "watching").with_suffix("").parts[0]
    for module in _imports(path):
        _, room, *rest = module.split(".")
        assert room != "watching" or rest[0] in WITHIN_WATCHING[part], f"{part} must not import {rest[0]}"


@pytest.mark.parametrize("room", ["report", "finding", "source"])
def test_room_knows_no_torch(room: str) -> None:
    paths = [SOURCE / f"{room}.py"] if (SOURCE / f"{room}.py").exists() else sorted((SOURCE / room).rglob("*.py"))
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "torch" for name in names), path


def test_numpy_is_never_imported() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        assert "import numpy" not in path.read_text(), path


def test_rules_touch_no_hooks() -> None:
    for path in sorted((SOURCE / "rules").rglob("*.py")):
        text = path.read_text()
        assert "register_" not in text.replace("register_buffer", "").replace('"register_', ""), path
        assert "TorchFunctionMode" not in text, path


def test_importing_whence_imports_neither_torch_nor_rich() -> None:
    code = "import sys, whence; print([each for each in ('torch', 'rich', 'executing') if each in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
