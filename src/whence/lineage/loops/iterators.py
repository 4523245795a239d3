"""Iterators: whether one has been used up, and where it was made. Nothing is taken from them."""

from __future__ import annotations

import ast
import gc
import io
import operator
import os
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

from whence.lineage.loops.feeding import Place, functions_of, passed_for
from whence.source.definitions import Kind, find_definition, returns_of
from whence.source.spots import Spot
from whence.source.text import statement_of, tree_of
from whence.torch_internals import LoaderIterator

DEEPEST = 12
FARTHEST = 6
MOST_SEEN = 20_000
# Those that end when one of what they draw on has ended, and let go of it then or keep it.
JOINING = {
    "zip",
    "map",
    "filter",
    "enumerate",
    "islice",
    "takewhile",
    "starmap",
    "batched",
    "reader",
    "pairwise",
}


def is_iterator(thing: Any) -> bool:
    return hasattr(type(thing), "__next__")


def is_exhausted(thing: Any, depth: int = 0) -> bool:
    """True if an iterator is known to have nothing more to give."""
    if isinstance(thing, GeneratorType):
        return thing.gi_frame is None
    if isinstance(thing, LoaderIterator):
        ended = bool(getattr(getattr(thing, "_dataset_fetcher", None), "ended", False))
        return ended or (
            is_exhausted(getattr(thing, "_sampler_iter", None))
            and not getattr(thing, "_tasks_outstanding", 0)
        )
    if isinstance(thing, io.TextIOWrapper | io.BufferedReader):
        return _is_at_end(thing)
    kind = type(thing)
    if (
        kind.__module__ in ("builtins", "itertools", "_csv")
        and kind.__name__ in JOINING
        and depth < DEEPEST
    ):
        sources = [each for each in _sources(thing) if is_iterator(each)]
        return not sources or any(is_exhausted(each, depth + 1) for each in sources)
    if kind.__module__ == "builtins" and kind.__name__.endswith("iterator"):
        return operator.length_hint(thing, -1) == 0
    return False


def _sources(thing: Any) -> list[Any]:
    found = []
    for each in gc.get_referents(thing):
        found += list(each) if isinstance(each, tuple) else [each]
    return found


def draws_on(iterator: Any, thing: Any) -> bool:
    """Whether what an iterator gives may come from a thing: it is the iterator, or hangs on it."""
    pending, seen = [(iterator, 0)], {id(iterator)}
    while pending:
        each, depth = pending.pop()
        if each is thing:
            return True
        if depth < FARTHEST and not isinstance(each, type | ModuleType | FunctionType):
            below = [one for one in gc.get_referents(each) if id(one) not in seen]
            seen |= {id(one) for one in below}
            pending += [(one, depth + 1) for one in below]
        if len(seen) > MOST_SEEN:
            return True
    return False


def _is_at_end(file: Any) -> bool:
    try:
        return (
            not file.closed
            and os.lseek(file.fileno(), 0, os.SEEK_CUR) == os.fstat(file.fileno()).st_size
        )
    except (OSError, ValueError):
        return False


def maker_of(node: ast.expr, place: Place, path: tuple[int, ...] = (), depth: int = 0) -> Spot:
    """The expression that makes an iterator: over names, parameters and what functions return."""
    here = Spot.of_node(place.filename, node)
    if depth > DEEPEST:
        return here
    if isinstance(node, ast.Tuple | ast.List) and path and path[0] < len(node.elts):
        return maker_of(node.elts[path[0]], place, path[1:], depth + 1)
    if isinstance(node, ast.Name):
        definition = find_definition(node.id, place.scope, statement_of(node) or node)
        tree = tree_of(place.filename)
        if definition is None and tree is not None:
            definition = find_definition(node.id, tree, None)
        if definition is not None and definition.kind is Kind.PARAMETER:
            passed = passed_for(definition, node.id, place)
            return maker_of(*passed, path, depth + 1) if passed is not None else here
        if (
            definition is not None
            and definition.value is not None
            and definition.kind is Kind.ASSIGNED
        ):
            return maker_of(definition.value, place, (*definition.path, *path), depth + 1)
    if isinstance(node, ast.Call):
        for function, filename, names in functions_of(node, place):
            inside = Place(filename, function, names, caller=(node, place))
            yields = any(isinstance(each, ast.Yield | ast.YieldFrom) for each in ast.walk(function))
            given = returns_of(function)
            if not yields and len(given) == 1:
                return maker_of(given[0], inside, path, depth + 1)
    return here
