"""An empty dataset: where it should have been filled, and what kept it empty."""

from __future__ import annotations

import ast
from collections.abc import Sized
from types import FrameType

from torch.utils.data import RandomSampler

from whence.finding import Finding
from whence.lineage.looking import Unknown, look
from whence.rules.refusals import refusing
from whence.rules.rule import Rank, rule
from whence.rules.telling import failure_finding
from whence.source.classes import class_node, method_of
from whence.source.definitions import find_definition
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node
from whence.tape.failed import FailedCall

WHY = "The dataset has no samples."
FIX = "Check how the samples are selected: a name, a path or a condition that matches nothing."
FILLING = frozenset({"append", "extend", "add", "insert", "update"})
MOST_NAMES = 10


@rule("data/empty-epoch", Rank.CAUSE)
def refused(failed: FailedCall) -> Finding | None:
    """The loud form: a random sampler rejects a dataset without samples."""
    names = refusing(failed, RandomSampler, "__init__")
    dataset = names.get("data_source") if names is not None else None
    if not _is_empty(dataset):
        return None
    frame = failed.frames[0] if failed.frames else None
    return failure_finding(
        failed,
        "data/empty-epoch",
        spot=origin_of_empty(dataset, failed.site, frame),
        verdict=f"the loader's dataset is empty: len({type(dataset).__name__}) is 0",
        why=WHY,
        fix=FIX,
    )


def origin_of_empty(dataset: object, site: Site | None, frame: FrameType | None) -> Spot | None:
    """The condition under which the dataset adds samples, or else the empty list it received."""
    return _unmet_condition(dataset) or _empty_name(site, frame)


def _is_empty(thing: object) -> bool:
    try:
        return isinstance(thing, Sized) and len(thing) == 0
    except Exception:
        # The program's own __len__ may fail.
        return False


def _unmet_condition(dataset: object) -> Spot | None:
    """`if ...:` around the code that fills the container whose length is the dataset's."""
    length, _ = method_of(type(dataset), "__len__")
    counted = (
        {name for each in ast.walk(length) if (name := _own(each)) is not None}
        if length is not None
        else set()
    )
    for name in counted:
        if not _is_empty(getattr(dataset, "__dict__", {}).get(name)):
            continue
        for kind in type(dataset).__mro__:
            node, filename = class_node(kind)
            choices = (
                [each for each in ast.walk(node) if isinstance(each, ast.If)]
                if node is not None
                else []
            )
            # The innermost comes last.
            for each in reversed(choices):
                if any(_fills(part, name) for inner in each.body for part in ast.walk(inner)):
                    return Spot.of_node(filename, each.test)
    return None


def _own(node: ast.AST) -> str | None:
    """The name of an attribute of `self`."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return name
    return None


def _fills(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=container, attr=method)):
            return method in FILLING and _own(container) == name
        case ast.Subscript(value=container, ctx=ast.Store()):
            return _own(container) == name
    return False


def _empty_name(site: Site | None, frame: FrameType | None) -> Spot | None:
    """From the loader's constructor back to the empty list that its dataset received."""
    node = site.node() if site is not None else None
    if site is None or frame is None or not isinstance(node, ast.Call):
        return None
    pending: list[ast.AST] = [
        *node.args[:1],
        *(each.value for each in node.keywords if each.arg == "dataset"),
    ]
    found: Spot | None = None
    for _ in range(MOST_NAMES):
        names = [each for part in pending for each in ast.walk(part) if isinstance(each, ast.Name)]
        pending = []
        for name in names:
            try:
                is_empty = _is_empty(look(name, frame))
            except Unknown:
                continue
            scope = function_node(site)
            definition = (
                find_definition(name.id, scope, name) if is_empty and scope is not None else None
            )
            if definition is not None and definition.value is not None:
                found = Spot.of_node(site.filename, definition.value)
                pending.append(definition.value)
    return found
