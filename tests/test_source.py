"""Reading the user's program: exception handlers, definitions of names, edits."""

from __future__ import annotations

import ast
import linecache
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from whence.lineage.following.passing import passes
from whence.source.blocks import holds_at
from whence.source.definitions import find_definition, name_in
from whence.source.discarded import discarded_draw
from whence.source.edits import diff_of, insert_after, replace_node
from whence.source.handlers import Fate, fate_of
from whence.source.limits import overrun_limit
from whence.source.sites import frames_from, is_library, user_stack
from whence.source.statements import (
    decorate,
    line_after,
    line_before,
    move_before,
    remove_statement,
    wrap,
)
from whence.source.text import tree_of
from whence.source.uncalled import called, uncalled_in_program


class Boom(RuntimeError):
    pass


def _fate(body: str, tmp_path: Path) -> Fate:
    """Run a program in which `boom()` raises, and return the fate of the exception."""
    path = tmp_path / f"program{abs(hash(body))}.py"
    path.write_text(body)
    seen: list[Fate] = []

    def boom(*_: object) -> object:
        error = Boom("made up")
        frames = [
            frame
            for frame in frames_from(sys._getframe(1))
            if frame.f_code.co_filename == str(path)
        ]
        seen.append(fate_of(error, frames))
        raise error

    names: dict[str, object] = {"boom": boom, "Boom": Boom}
    try:
        exec(compile(body, str(path), "exec"), names)
    except BaseException:
        pass
    return seen[0]


PROGRAMS = [
    ("boom()", Fate.UNCAUGHT),
    ("try:\n    boom()\nexcept ValueError:\n    pass", Fate.UNCAUGHT),
    ("try:\n    boom()\nexcept Boom as error:\n    print(error)", Fate.CAUGHT),
    ("try:\n    boom()\nexcept:\n    pass", Fate.CAUGHT),
    ("try:\n    boom()\nexcept RuntimeError:\n    raise", Fate.UNCAUGHT),
    (
        "try:\n    boom()\nexcept RuntimeError as error:\n    raise SystemExit(2) from error",
        Fate.UNCAUGHT,
    ),
    ("try:\n    boom()\nfinally:\n    print('over')", Fate.UNCAUGHT),
    ("x = 1\ntry:\n    y = boom(x)\nexcept RuntimeError:\n    y = abs(x)", Fate.MENDED),
    ("try:\n    y = boom()\nexcept RuntimeError:\n    y = None", Fate.CAUGHT),
    (
        "results = {}\ntry:\n    results['a'] = boom()\nexcept RuntimeError as e:\n"
        "    results['a'] = str(e)",
        Fate.CAUGHT,
    ),
    (
        "def f():\n    try:\n        return boom()\n    except RuntimeError:\n"
        "        return abs(-1)\nf()",
        Fate.MENDED,
    ),
    (
        "try:\n    boom(1)\nexcept RuntimeError:\n    print('again')\n    try:\n"
        "        boom(2)\n    except Boom:\n        pass",
        Fate.MENDED,
    ),
    ("try:\n    boom()\nexcept RuntimeError as error:\n    print(error, len('boom'))", Fate.CAUGHT),
    (
        "x = 3\nwhile x:\n    try:\n        boom(x)\n        break\n    except RuntimeError:\n"
        "        x -= 1",
        Fate.MENDED,
    ),
    (
        "def f():\n    for n in (3, 2):\n        try:\n            boom(n)\n"
        "        except RuntimeError:\n            continue\n        return n\nf()",
        Fate.MENDED,
    ),
    (
        "skipped = 0\nfor n in (3, 2):\n    try:\n        boom(n)\n    except RuntimeError:\n"
        "        skipped += 1\n        continue",
        Fate.CAUGHT,
    ),
    (
        "def raises(k):\n    import contextlib\n    return contextlib.suppress(k)\n"
        "with raises(Boom):\n    boom()",
        Fate.MENDED,
    ),
    (
        "import contextlib\n@contextlib.contextmanager\ndef must_fail(kind):\n    try:\n"
        "        yield\n    except kind:\n        pass\n    else:\n"
        "        raise AssertionError\nwith must_fail(Boom):\n    boom()",
        Fate.MENDED,
    ),
    (
        "import contextlib\n@contextlib.contextmanager\ndef timed():\n    try:\n        yield\n"
        "    finally:\n        print('over')\nwith timed():\n    boom()",
        Fate.UNCAUGHT,
    ),
    (
        "class Refuses:\n    def __enter__(self): ...\n"
        "    def __exit__(self, kind, error, trace):\n        if kind is None:\n"
        "            raise AssertionError\n"
        "        return True\nwith Refuses():\n    boom()",
        Fate.MENDED,
    ),
    (
        "class Budget:\n    def __enter__(self): ...\n"
        "    def __exit__(self, kind, error, trace):\n        if self.over:\n"
        "            raise TimeoutError\nwith Budget():\n    boom()",
        Fate.UNCAUGHT,
    ),
    (
        "try:\n    boom()\nexcept Boom:\n    print('as it should')\nelse:\n"
        "    raise AssertionError",
        Fate.MENDED,
    ),
]


@pytest.mark.parametrize(("body", "fate"), PROGRAMS, ids=range(len(PROGRAMS)))
def test_fate_of_an_exception_is_read_from_the_handlers_around_it(
    body: str, fate: Fate, tmp_path: Path
) -> None:
    assert _fate(body, tmp_path) is fate


def _definition_line(body: str, name: str, line: int) -> int | None:
    tree = ast.parse(body)
    use = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Expr) and node.lineno == line
    )
    found = find_definition(name, tree, use)
    return getattr(found.node, "lineno", None) if found is not None else None


DEFINITIONS = [
    ("x = 1\nx = 2\nx", "x", 3, 2),
    ("x, (y, z) = f()\nz", "z", 2, 1),
    ("for a, b in pairs:\n    b", "b", 2, 1),
    ("with open(p) as f:\n    f", "f", 2, 1),
    ("x = 1\nx += 2\nx", "x", 3, 2),
    ("x: int = 1\nx", "x", 2, 1),
    ("def f():\n    x = 1\nx", "x", 3, None),
]


@pytest.mark.parametrize(
    ("body", "name", "line", "defined"), DEFINITIONS, ids=range(len(DEFINITIONS))
)
def test_definition_is_the_last_one_above(
    body: str, name: str, line: int, defined: int | None
) -> None:
    assert _definition_line(body, name, line) == defined


@pytest.fixture
def program(tmp_path: Path) -> Callable[[str], str]:
    def write(text: str) -> str:
        path = tmp_path / "program.py"
        path.write_text(text)
        linecache.checkcache(str(path))
        return str(path)

    return write


def test_edits_are_told_as_a_unified_diff_that_counts_bytes_as_the_compiler_does(
    program: Callable[[str], str],
) -> None:
    filename = program("größe = f(é)\n")
    call = ast.parse("größe = f(é)\n").body[0].value  # type: ignore[attr-defined]
    diff = diff_of(insert_after(filename, call, ".float()"))
    assert diff is not None
    assert "-größe = f(é)\n+größe = f(é).float()\n" in diff


def test_an_edit_that_would_not_parse_is_no_patch(program: Callable[[str], str]) -> None:
    filename = program("x = f(1)\n")
    call = ast.parse("x = f(1)\n").body[0].value  # type: ignore[attr-defined]
    assert diff_of(replace_node(filename, call, "f(")) is None


def test_what_the_other_arm_of_an_if_sets_does_not_reach_here(
    program: Callable[[str], str],
) -> None:
    tree = tree_of(program("x = 1\nif a:\n    x = 2\nelse:\n    x\n"))
    assert tree is not None
    use = next(node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    found = find_definition("x", tree, use)
    assert found is not None
    assert getattr(found.node, "lineno", None) == 1


def test_a_line_is_moved_with_its_own_indentation_and_a_block_is_not_left_empty(
    program: Callable[[str], str],
) -> None:
    filename = program("for i in r:\n    clip()  # here\n    back()\n    if i:\n        step()\n")
    tree = tree_of(filename)
    assert tree is not None
    clip, _, step = (node for node in ast.walk(tree) if isinstance(node, ast.Expr))
    diff = diff_of(*move_before(filename, clip, step))
    assert diff is not None
    assert "-    clip()  # here\n" in diff
    assert "+        clip()  # here\n" in diff
    assert diff_of(remove_statement(filename, step)) is None


def _patched(path: str, diff: str | None) -> str:
    """Apply a patch to a file and return the result."""
    assert diff is not None
    applied = subprocess.run(["patch", path], input=diff.encode(), capture_output=True)
    assert applied.returncode == 0, applied.stdout.decode() + diff
    return Path(path).read_bytes().decode()


BEFORE = ["if a:", "{}for x in y:  # all", "{}{}# each", "{}{}f('''", "text''', x)", "{}g()  # end"]
AFTER = [
    "if a:",
    "{}with q:",
    "{}{}for x in y:  # all",
    "{}{}{}# each",
    "{}{}{}f('''",
    "text''', x)",
    "{}g()  # end",
    "{}h()",
]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("indent", ["    ", "\t", "  "])
@pytest.mark.parametrize("last", [True, False])
def test_lines_are_put_in_and_indented_as_the_file_is(
    end: str, indent: str, last: bool, tmp_path: Path
) -> None:
    before, after = (
        end.join(line.replace("{}", indent) for line in lines) + (end if last else "")
        for lines in (BEFORE, AFTER)
    )
    path = tmp_path / "program.py"
    path.write_bytes(before.encode())
    tree = tree_of(str(path))
    assert tree is not None
    loop, final = tree.body[0].body  # type: ignore[attr-defined]
    diff = diff_of(wrap(str(path), [loop], "with q:"), line_after(str(path), final, "h()"))
    assert _patched(str(path), diff) == after


def test_what_shares_its_line_is_left_alone(program: Callable[[str], str]) -> None:
    filename = program("for x in y: f(x)\na(); b()\n@k\ndef g():\n    pass\n")
    tree = tree_of(filename)
    assert tree is not None
    loop, first, second, function = tree.body
    assert line_before(filename, loop.body[0], "h()") is None  # type: ignore[attr-defined]
    assert line_after(filename, first, "h()") is None
    assert remove_statement(filename, second) is None
    assert decorate(filename, function, "h") is None  # type: ignore[arg-type]
    before = line_before(filename, function, "h()")
    assert before is not None
    assert before.span.line == 3


def test_what_is_no_file_has_no_patch() -> None:
    linecache.cache["<cell>"] = (6, None, ["x = 1\n"], "<cell>")
    assert diff_of(replace_node("<cell>", ast.parse("x = 1\n").body[0], "y = 2")) is None


HELD = [
    ("opt = A()\nuse()", True),
    ("if a:\n    opt = A()\nuse()", False),
    ("with a:\n    opt = A()\nuse()", True),
    ("opt = A()\nif a:\n    use()", True),
    ("opt = A()\ndel opt\nuse()", False),
    ("opt = A()\nif a:\n    opt = B()\nuse()", False),
    ("opt = A()\nopt = B()\nuse()", False),
    ("opt = A()\nfor opt in b:\n    pass\nuse()", False),
    ("use()\nopt = A()", False),
    ("opt = A()\ndef f():\n    use()", False),
]


@pytest.mark.parametrize(("text", "holds"), HELD)
def test_a_name_holds_where_nothing_can_have_changed_it(
    text: str, holds: bool, program: Callable[[str], str]
) -> None:
    tree = tree_of(program(text + "\n"))
    assert tree is not None
    made = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "A()"
    )
    use = next(
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and ast.unparse(node) == "use()"
    )
    assert holds_at("opt", made, use) is holds


IMPORTS = [
    ("from torch import nn, optim\n", "nn.Parameter"),
    ("import torch\n", "torch.nn.Parameter"),
    ("import torch as th\n", "th.nn.Parameter"),
    ("import torch.nn as tnn\n", "tnn.Parameter"),
    ("from torch.nn import Parameter as P\n", "P"),
    ("import numpy\n", None),
]


@pytest.mark.parametrize(("text", "name"), IMPORTS, ids=range(len(IMPORTS)))
def test_a_name_is_written_as_the_file_would_write_it(
    text: str, name: str | None, program: Callable[[str], str]
) -> None:
    assert name_in(program(text), "torch.nn", "Parameter") == name


DISCARDED = [
    ("rng.permutation(order)", True),
    ("torch.randperm(n, generator=g)", True),
    ("random.sample(rows, len(rows))", True),
    ("frame.sample(frac=1)", True),
    ("order[torch.randperm(n)]", True),
    ("random.shuffle(list(rows))", True),
    ("np.random.shuffle(order.copy())", True),
    ("order = rng.permutation(order)", False),
    ("rng.permuted(order, out=order)", False),
    ("random.shuffle(rows)", False),
    ("rng.shuffle(rows[:8])", False),
    ("noise.sample()", False),
    ("use(rng.permutation(order))", False),
]


@pytest.mark.parametrize(("line", "is_lost"), DISCARDED)
def test_an_order_is_lost_where_it_is_drawn_and_nobody_keeps_it(line: str, is_lost: bool) -> None:
    assert (discarded_draw(ast.parse(line)) is not None) == is_lost


def test_of_several_lost_orders_none_is_told() -> None:
    assert discarded_draw(ast.parse("rng.permutation(a)\nrng.permutation(b)")) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return [BOS] + ids[:limit] + [EOS]", "limit"),
        ("return [BOS, *ids[:cfg.limit], EOS]", "cfg.limit"),
        ("ids = ids[:limit]\n    ids.append(EOS)\n    ids.insert(0, BOS)\n    return ids", "limit"),
        ("ids = ids[:limit]\n    return [BOS] + ids + [EOS]", "limit"),
        ("return [BOS] + ids[:48] + [EOS]", "48"),
        ("return [BOS] + ids[:50] + [EOS]", None),
        ("return [BOS] + ids[:limit - 2] + [EOS]", None),
        ("return [BOS] + ids[:limit]", None),
        ("ids = [BOS] + ids + [EOS]\n    return ids[:limit]", None),
    ],
)
def test_a_limit_is_overrun_where_as_many_are_added_after_the_cut(
    body: str, expected: str | None, tmp_path: Path
) -> None:
    path = tmp_path / f"limits{abs(hash(body))}.py"
    path.write_text(f"def encode(ids, limit, cfg):\n    {body}\n")
    tree = tree_of(str(path))
    assert tree is not None
    found = overrun_limit(tree.body[0].body[-1], 48, 2)  # type: ignore[attr-defined]
    assert (ast.unparse(found) if found is not None else None) == expected


@pytest.mark.parametrize(
    ("body", "is_passed"),
    [
        ("import signal\nsignal.astype(float)", False),
        ("def wide(signal):\n    return signal.astype(float)", True),
        ("def wide(self):\n    return self.signal.astype(float)", True),
        ("np.random.astype(float)", False),
    ],
)
def test_a_variable_that_is_called_like_a_module_is_none(
    body: str, is_passed: bool, tmp_path: Path
) -> None:
    path = tmp_path / f"program{abs(hash(body))}.py"
    path.write_text(body)
    tree = tree_of(str(path))
    assert tree is not None
    call = next(
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Attribute)
    )
    assert passes(call, call.func.value) is is_passed  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("net.eval", [1]),
        ("net.eval()", []),
        ("mode = net.eval", []),
        ("def look(net):\n    net.eval\n    return net", [2]),
        ("class Trainer:\n    def look(self):\n        self.net.eval", [3]),
        ("net.train", []),
    ],
)
def test_a_method_that_is_only_named_is_found_in_every_function_once(
    body: str, lines: list[int], tmp_path: Path
) -> None:
    path = tmp_path / f"program{abs(hash(body))}.py"
    path.write_text(body)
    found = uncalled_in_program("eval", [str(path)])
    assert [each.line for each in found] == lines
    assert all("eval()" in (called(each) or "") for each in found)


def test_a_line_that_reaches_torch_through_a_library_is_not_the_call_itself() -> None:
    package = os.path.join(sysconfig.get_paths()["purelib"], "someones", "layers.py")
    scope: dict[str, Any] = {"user_stack": user_stack, "sys": sys}
    exec(compile("def squash(): return user_stack(sys._getframe())", package, "exec"), scope)
    assert scope["squash"]()[0].is_indirect
    assert not user_stack(sys._getframe())[0].is_indirect


def test_what_was_installed_beside_a_program_is_a_library_and_the_program_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "drawing-1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    record.write_text("drawing/__init__.py,sha256=0,12\nlines.py,sha256=0,3\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert is_library(str(tmp_path / "drawing" / "axes.py"))
    assert is_library(str(tmp_path / "lines.py"))
    assert not is_library(str(tmp_path / "train.py"))
    assert not is_library(str(tmp_path / "models" / "net.py"))
