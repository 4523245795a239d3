"""Through files: from what the program reads to the place in it that has written that."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from whence.lineage.following.containers import Path
from whence.lineage.following.found import Refuted
from whence.lineage.grounds import Ground, ground_of_node
from whence.source.files import program_files
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, root_name, tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace

# Which calls write what a call reads.
WRITERS = {
    "load": ("save", "savez", "savez_compressed", "dump"),
    "loads": ("dumps",),
    "fromfile": ("tofile",),
    "memmap": ("tofile", "memmap"),
    "loadtxt": ("savetxt",),
    "genfromtxt": ("savetxt",),
    "read_csv": ("to_csv",),
    "read_parquet": ("to_parquet",),
    "read_pickle": ("to_pickle",),
}
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)


@dataclass(frozen=True, slots=True)
class Written:
    """What is written to a file: the expression, and the way from it to the part that is asked for."""

    value: ast.expr
    filename: str
    path: Path


def follow_written(trace: SourceTrace, node: ast.Call, ground: Ground, path: Path) -> Spot | None:
    """What the program reads from a file that it has written itself: where that was made so, if it is one place."""
    if (
        not trace.prop.outlives_files
        or last_name(node.func) not in WRITERS
        or _opens_to_write(node)
    ):
        return None
    found: dict[Spot, SourceTrace] = {}
    for each in _writers_of(node, path):
        aside = trace.branched()
        try:
            spot = aside.expression(
                each.value, ground_of_node(each.value, each.filename, trace.frames), each.path
            )
        except Refuted:
            continue
        made = spot.node() if spot is not None else None
        if spot is not None and made is not None and trace.prop.is_born_in(made):
            found[spot] = aside
    if len(found) != 1:
        return None
    spot, aside = next(iter(found.items()))
    trace.adopt(aside)
    trace.hops.append(Spot.of_node(ground.filename, node).hop("loaded from a file here"))
    return spot


def _opens_to_write(node: ast.Call) -> bool:
    modes = [each.value for each in node.keywords if each.arg == "mode"] + node.args[2:3]
    return any(isinstance(each, ast.Constant) and str(each.value).startswith("w") for each in modes)


def _writers_of(read: ast.Call, path: Path) -> list[Written]:
    """Those places of the program that may have written what a call reads. Where the name of the file is the same, no others."""
    names = WRITERS.get(last_name(read.func), ())
    found: list[tuple[ast.Call, Written]] = []
    for filename in program_files():
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            is_writer = (
                isinstance(node, ast.Call) and last_name(node.func) in names and node is not read
            )
            if isinstance(node, ast.Call) and is_writer and _belong(read, node):
                found += [
                    (node, Written(value, filename, inner)) for value, inner in _values(node, path)
                ]
    same = [each for node, each in found if _is_same_file(read, node)]
    return same or [each for _, each in found]


def _belong(read: ast.Call, write: ast.Call) -> bool:
    """`np.load` reads what `np.save` writes, and not what `torch.save` does; methods write for whoever reads."""
    written = last_name(write.func)
    return written.startswith("to") or root_name(read.func) == root_name(write.func)


def _values(write: ast.Call, path: Path) -> Iterator[tuple[ast.expr, Path]]:
    """What a call writes of the part that is asked for; where it is not known which part that is, of each."""
    name = last_name(write.func)
    given = {each.arg: each.value for each in write.keywords if each.arg}
    if name in ("savez", "savez_compressed"):
        yield from ((value, path[1:]) for key, value in given.items() if path[:1] in ((), (key,)))
    elif name == "memmap":
        # What is put into it is put into its type.
        yield from [(write, path)] if _opens_to_write(write) else []
    elif name.startswith("to") and isinstance(write.func, ast.Attribute):
        yield write.func.value, path
    else:
        place = 1 if name in ("save", "savetxt") and root_name(write.func) in ("np", "numpy") else 0
        value = (
            write.args[place] if place < len(write.args) else given.get("arr") or given.get("obj")
        )
        if isinstance(value, ast.Dict) and not path:
            yield from ((each, ()) for each in value.values)
        elif value is not None:
            yield value, path


def _is_same_file(read: ast.Call, write: ast.Call) -> bool:
    """Whether both say which file in the same words, in the same function."""
    if enclosing(read, *SCOPES) is not enclosing(write, *SCOPES) or not read.args:
        return False
    return any(ast.unparse(each) == ast.unparse(read.args[0]) for each in write.args)
