"""Over variables: the definition that a name has in a function, in its file or in another one."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from whence.lineage.following.branches import arm_taken
from whence.lineage.following.columns import column_put
from whence.lineage.following.containers import Path
from whence.lineage.following.definitions import follow_definition, follow_settings
from whence.lineage.following.settings import variable_settings
from whence.lineage.grounds import Ground, ground_of, ground_of_node, module_ground, outer_sites
from whence.source.definitions import Definition, arms_around, definitions_before, find_definition
from whence.source.sites import Site, is_library, variables
from whence.source.spots import Spot
from whence.source.text import enclosing, statement_of, tree_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)


def follow_variable(trace: SourceTrace, name: str, frame: FrameType, path: Path) -> Spot | None:
    """A variable of a live frame, or of the file that the frame's function stands in."""
    site = Site.of(frame)
    ground = ground_of((site, *outer_sites(frame)), trace.frames)
    if ground is not None and name not in variables(frame):
        ground = module_ground(ground, trace.frames)
    if ground is None:
        return None
    found = find_definition(
        name, ground.scope, site.statement() if name in variables(frame) else None
    )
    return (
        follow_definition(trace, found, ground, name=name, path=path) if found is not None else None
    )


def follow_name(trace: SourceTrace, node: ast.Name, ground: Ground, path: Path) -> Spot | None:
    found = _reaching(trace, node, ground)
    if path and isinstance(path[0], str):
        put = column_put(
            trace, node.id, path[0], ground, since=found, before=statement_of(node) or node
        )
        if put is not None:
            return _follow_entry(trace, put, ground, path)
    if found is not None:
        return follow_definition(trace, found, ground, name=node.id, path=path)
    for around in _functions_around(trace, ground):
        # As the call of what stands in it comes after, the last value is the one that it reads.
        if (found := find_definition(node.id, around.scope, None)) is not None:
            return follow_definition(trace, found, around, name=node.id, path=path)
    module = module_ground(ground, trace.frames)
    if module is None or isinstance(ground.scope, ast.Module):
        return _imported(trace, node.id, ground)
    settings = variable_settings(node.id, ground.filename, path)
    if any(not each.at_first for each in settings):
        return follow_settings(trace, settings, None, path, is_one=True)
    found = find_definition(node.id, module.scope, None)
    if found is not None:
        return follow_definition(trace, found, module, name=node.id, path=path)
    return _imported(trace, node.id, ground)


def _follow_entry(trace: SourceTrace, put: Definition, ground: Ground, path: Path) -> Spot | None:
    """The birth of what an entry was last set to by itself, if that says what it makes. Else the trail is lost: what the whole had
    there is gone."""
    aside = trace.branched()
    spot = follow_definition(aside, put, ground, path=path[1:])
    if aside.made is None and not trace.prop.singles_out:
        return None
    trace.adopt(aside)
    return spot


def _functions_around(trace: SourceTrace, ground: Ground) -> Iterator[Ground]:
    """The functions in which a lambda or a function stands, from inside to outside: it reads their variables."""
    scope = enclosing(ground.scope, *FUNCTIONS)
    while scope is not None:
        yield ground_of_node(scope, ground.filename, trace.frames)
        scope = enclosing(scope, *FUNCTIONS)


def _reaching(trace: SourceTrace, node: ast.Name, ground: Ground) -> Definition | None:
    """The definition that reaches a name; of several in the branches of an `if`, the one that gives such a value."""
    before = statement_of(node) or node
    last = find_definition(node.id, ground.scope, before)
    if last is None or not isinstance(enclosing(last.node, ast.If, *SCOPES), ast.If):
        return last
    earlier = definitions_before(node.id, ground.scope, before)
    for other in earlier:
        if isinstance(other.value, ast.Constant) and trace.prop.holds(other.value.value):
            return other
    around = dict(arms_around(before))
    reaching = (each for each in earlier if not _was_passed_over(trace, each.node, ground, around))
    return next(reaching, last)


def _was_passed_over(
    trace: SourceTrace, node: ast.AST, ground: Ground, around: dict[ast.If, str]
) -> bool:
    """Whether a statement stands in an arm of an `if` that did not run: where the statement that is looked from stands, or by what was
    asked, as long as that is still known."""
    for branching, arm in arms_around(node):
        taken = around.get(branching) or arm_taken(branching, ground, trace.frames)
        if taken is not None and taken != arm:
            return True
    return False


def _imported(trace: SourceTrace, name: str, ground: Ground) -> Spot | None:
    """A name that another file of the program defines."""
    tree = tree_of(ground.filename)
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ImportFrom) and any(
            (each.asname or each.name) == name for each in node.names
        ):
            original = next(each.name for each in node.names if (each.asname or each.name) == name)
            module = sys.modules.get(node.module or "")
            filename = getattr(module, "__file__", None)
            if filename and not is_library(filename) and (other := tree_of(filename)) is not None:
                found = find_definition(original, other, None)
                if found is not None:
                    return follow_definition(trace, found, Ground(filename, other))
    return None
