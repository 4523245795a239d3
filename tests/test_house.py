"""Imports between the packages point one way, and forbidden imports do not occur."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "whence"

# Which package may import which others.
ARROWS = {
    "finding": set(),
    "version": set(),
    "torch_internals": set(),
    "weak_table": set(),
    "devices": set(),
    "source": {"finding"},
    "data": {"devices", "finding"},
    "tape": {"devices", "finding", "source"},
    "rerun": {"devices", "finding", "source", "tape"},
    "lineage": {"devices", "finding", "source", "tape", "rerun"},
    "ledgers": {"devices", "finding", "source", "tape", "rerun", "lineage", "data"},
    "rules": {"devices", "finding", "source", "tape", "rerun", "lineage", "ledgers", "data"},
    "config": {"finding", "rules"},
    "redaction": {"finding"},
    "record": {"finding", "config", "redaction", "version"},
    "sensors": {"devices", "finding", "source", "tape", "ledgers"},
    "report": {"finding", "source"},
    "repro": {"finding", "source", "tape", "lineage"},
    "watching": {
        "devices",
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
        "rerun",
    },
    "checking": {
        "devices",
        "finding",
        "config",
        "record",
        "version",
        "source",
        "tape",
        "rules",
        "sensors",
        "watching",
    },
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

# What every package may import, except those that must not import torch.
EVERYWHERE = {"torch_internals", "weak_table"}

# The same within `watching`, which connects everything.
WITHIN_WATCHING = {
    "__init__": set(),
    "stopping": set(),
    "aside": set(),
    "updates": set(),
    "explaining": set(),
    "diagnosing": set(),
    "asking": set(),
    "budget": set(),
    "movements": {"updates"},
    "studying": {"asking", "budget"},
    "auditing": {"asking", "budget", "movements", "studying"},
    "course": {"updates"},
    "overshoot": {"course", "updates"},
    "telling": {"diagnosing"},
    "scales": set(),
    "pending_steps": set(),
    "statistics": {"pending_steps"},
    "skip_wire": {"course", "pending_steps", "scales", "telling"},
    "update_wire": {"course", "diagnosing", "overshoot", "pending_steps", "telling", "updates"},
    "tripwires": {
        "course",
        "diagnosing",
        "pending_steps",
        "scales",
        "skip_wire",
        "statistics",
        "telling",
        "update_wire",
        "updates",
    },
    "functional": {"tripwires"},
    "reenacting": {"telling", "tripwires"},
    "pacing": {"auditing", "budget", "studying"},
    "stepping": {"tripwires", "pacing"},
    "routine": {"auditing", "tripwires", "pacing", "studying"},
    # Listeners share the session that they belong to; they import it only for its type.
    "listeners": {"listeners", "session", "tripwires", "updates"},
    "session": {
        "budget",
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
            found |= (
                {f"whence.{each.name}" for each in node.names} if module == "whence" else {module}
            )
        if isinstance(node, ast.Import):
            found |= {each.name for each in node.names if each.name.split(".")[0] == "whence"}
    return found


def _room(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_imports_follow_the_arrows(path: Path) -> None:
    room = _room(path)
    for module in _imports(path):
        target = module.split(".")[1]
        assert target == room or target in ARROWS[room] | EVERYWHERE, (
            f"{room} must not import {target}"
        )


@pytest.mark.parametrize(
    "path", sorted((SOURCE / "watching").rglob("*.py")), ids=lambda path: path.stem
)
def test_imports_within_the_watch_follow_the_arrows(path: Path) -> None:
    part = path.relative_to(SOURCE / "watching").with_suffix("").parts[0]
    for module in _imports(path):
        _, room, *rest = module.split(".")
        assert room != "watching" or rest[0] in WITHIN_WATCHING[part], (
            f"{part} must not import {rest[0]}"
        )


@pytest.mark.parametrize("room", ["report", "finding", "source"])
def test_room_knows_no_torch(room: str) -> None:
    paths = (
        [SOURCE / f"{room}.py"]
        if (SOURCE / f"{room}.py").exists()
        else sorted((SOURCE / room).rglob("*.py"))
    )
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.split(".")[0] == "torch" for name in names), path
            assert "whence.torch_internals" not in names, path


def test_numpy_is_never_imported() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        assert "import numpy" not in path.read_text(), path


def test_rules_touch_no_hooks() -> None:
    for path in sorted((SOURCE / "rules").rglob("*.py")):
        text = path.read_text()
        assert "register_" not in text.replace("register_buffer", "").replace('"register_', ""), (
            path
        )
        assert "TorchFunctionMode" not in text, path


def test_importing_whence_imports_neither_torch_nor_rich() -> None:
    code = (
        "import sys, whence; print([each for each in ('torch', 'rich', 'executing') if each in "
        "sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "source",
    [
        "import torch._dynamo",
        "from torch._C import _nn",
        "from torch.overrides import _pop_mode",
        "from torch.utils._pytree import tree_map",
        "import torch\ntorch._C._nn",
        "import torch\ntorch.autograd._get_sequence_nr()",
        "from torch import nn\nnn.modules.batchnorm._BatchNorm",
        "from torch.nn.modules import module as m\nm._global_forward_hooks",
        "import sys\nsys.modules.get('torch._dynamo')",
    ],
)
def test_private_names_of_torch_are_recognised(source: str) -> None:
    assert list(_private_names(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import torch\ntorch.__version__",
        "import os\nos._exit(0)",
        "from torch import nn\nself._nn = nn.Linear",
    ],
)
def test_public_names_of_torch_are_recognised(source: str) -> None:
    assert not list(_private_names(ast.parse(source)))


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_private_names_of_torch_are_in_one_guarded_file(path: Path) -> None:
    name = path.relative_to(SOURCE).as_posix()
    if name == "torch_internals.py":
        return
    assert list(_private_names(ast.parse(path.read_text()))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import weakref\nweakref.WeakKeyDictionary()",
        "from weakref import WeakSet",
        "import weakref\nweakref.finalize(thing, print)",
        "import weakref\nweakref.ref(thing, forget)",
        "from weakref import ref\nref(thing, callback=forget)",
        "import weakref\nweakref.KeyedRef(thing, self.forget, 3)",
        "class A:\n    def __del__(self): ...",
        "import gc\ngc.callbacks.append(print)",
    ],
)
def test_python_that_runs_when_an_object_dies_is_recognised(source: str) -> None:
    assert list(_finalizers(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "import weakref\nweakref.ref(thing)",
        "import weakref\nweakref.KeyedRef(thing, self._dead.append, 3)",
    ],
)
def test_weak_references_without_python_are_recognised(source: str) -> None:
    assert not list(_finalizers(ast.parse(source)))


@pytest.mark.parametrize(
    "path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE))
)
def test_no_python_runs_when_an_object_of_the_program_dies(path: Path) -> None:
    """A signal handler may run wherever Python runs, and its exception would be lost there."""
    found = list(_finalizers(ast.parse(path.read_text())))
    assert found == (
        ["weakref.ref(thing, partial(table.pop, id(thing)))"] if path.stem == "weak_table" else []
    )


def _finalizers(tree: ast.Module) -> Iterator[str]:
    """Weak containers, `__del__`, collector and reference callbacks, except `list.append`."""
    for node in ast.walk(tree):
        name = (
            node.attr
            if isinstance(node, ast.Attribute)
            else node.name
            if isinstance(node, ast.alias)
            else ""
        )
        if name in (
            "WeakKeyDictionary",
            "WeakValueDictionary",
            "WeakSet",
            "WeakMethod",
            "finalize",
        ):
            yield name
        if isinstance(node, ast.FunctionDef) and node.name == "__del__":
            yield node.name
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "gc.callbacks":
            yield "gc.callbacks"
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "ref",
            "proxy",
            "KeyedRef",
        ):
            callbacks = [*node.args[1:2], *(each.value for each in node.keywords)]
            if any(
                not isinstance(each, ast.Attribute) or each.attr != "append" for each in callbacks
            ):
                yield ast.unparse(node)


def _private_names(tree: ast.Module) -> Iterator[str]:
    """Private modules, functions and classes of torch that a file imports or names."""
    ours: set[str] = set()
    """Names in this file that refer to a torch object."""
    for node in ast.walk(tree):
        imported = {}
        if isinstance(node, ast.Import):
            imported = {each.asname or each.name.split(".")[0]: each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported = {
                each.asname or each.name: f"{node.module}.{each.name}" for each in node.names
            }
        for name, path in imported.items():
            if path.split(".")[0] == "torch":
                ours.add(name)
                if any(map(_is_private, path.split("."))):
                    yield path
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node.value.startswith("torch._")
        ):
            yield node.value
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            if isinstance(owner, ast.Name) and owner.id in ours:
                yield ast.unparse(node)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
