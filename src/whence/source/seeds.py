"""Where a program seeds its random numbers, read from its source."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator

from whence.source.classes import method_of
from whence.source.definitions import own_nodes
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name, statement_of

SEEDERS = frozenset({"manual_seed", "seed", "seed_everything", "set_seed"})
MAKERS = frozenset({"default_rng", "RandomState", "Random"})
"""These make a generator, which always starts alike if it receives a seed."""
MIXING = frozenset(
    {
        "shuffle",
        "permutation",
        "permuted",
        "randperm",
        "sample",
        "choice",
        "choices",
        "multinomial",
        "argsort",
    }
)
PICKING = frozenset({"randrange", "randint", "integers", "random"})
"""The result is a position in a buffer, or any other number."""
DEEPEST = 4
Finder = Callable[[type, str], tuple[ast.FunctionDef | None, str]]


def seeding_before(stack: tuple[Site, ...], *, makers: bool = False) -> Spot | None:
    """Return where a seed is set before a line, each time that the line is reached.

    Searches the functions on the call path, up to a loop around the line.
    """
    for site in stack:
        scope, statement = function_node(site), site.statement()
        if scope is None or statement is None:
            return None
        loop = enclosing(
            statement, ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module
        )
        within = loop if isinstance(loop, ast.For | ast.While) else scope
        if isinstance(within, ast.Module):
            return None
        last = (
            site.f_lineno if hasattr(statement, "body") else statement.end_lineno or site.f_lineno
        )
        found = [
            each for each in own_nodes(within) if isinstance(each, ast.Call) and each.lineno <= last
        ]
        seeds = [
            each for each in found if _seeds(each, site) or (makers and _is_seeded_maker(each))
        ]
        if seeds:
            return Spot.of_node(site.filename, seeds[-1])
        if isinstance(loop, ast.For | ast.While):
            return None
    return None


def seeding_in(kind: type, name: str) -> Spot | None:
    """Return where a method, or a method that it calls, seeds or makes a generator."""
    for call, filename in _calls_from(kind, name, method_of):
        if (last_name(call.func) in SEEDERS and call.args) or _is_seeded_maker(call):
            return Spot.of_node(filename, call)
    return None


def mixes(kind: type, name: str) -> bool:
    """Return whether a method, or what it calls, draws an order.

    A generator alone does not prove that: it may produce the samples themselves.
    """
    return any(
        (word := last_name(call.func)) in MIXING
        or word.endswith("Sampler")
        or (word in PICKING and _picks(call))
        for call, _ in _calls_from(kind, name, method_of, _function_beside)
    )


def _calls_from(kind: type, name: str, *finders: Finder) -> Iterator[tuple[ast.Call, str]]:
    """Return the calls that a method makes, directly or through methods that can be found."""
    pending, seen = [name], set[str]()
    while pending and len(seen) < DEEPEST:
        name = pending.pop(0)
        function, filename = next(
            (each for find in finders if (each := find(kind, name))[0] is not None), (None, "")
        )
        if function is None or name in seen:
            continue
        seen.add(name)
        for call in _calls(function):
            yield call, filename
            owner = call.func.value if isinstance(call.func, ast.Attribute) else None
            if owner is None or last_name(owner) == "self":
                pending.append(last_name(call.func))


def _function_beside(kind: type, name: str) -> tuple[ast.FunctionDef | None, str]:
    code = getattr(getattr(sys.modules.get(kind.__module__), name, None), "__code__", None)
    if code is None or is_library(code.co_filename):
        return None, ""
    function = function_node(Site(code, 0, code.co_firstlineno, {}))
    return (function if isinstance(function, ast.FunctionDef) else None), code.co_filename


def _picks(call: ast.Call) -> bool:
    """Return whether a call picks an element.

    `buffer[rng.randrange(n)]`, or `at = rng.integers(n)` and later `buffer[at]` or
    `buffer.pop(at)`.
    """
    statement, function = statement_of(call), enclosing(call, ast.FunctionDef)
    if statement is None or function is None:
        return False
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = {each.id for each in targets if isinstance(each, ast.Name)}
    places: list[ast.AST] = [
        each.slice for each in ast.walk(function) if isinstance(each, ast.Subscript)
    ]
    places += [
        each
        for each in ast.walk(function)
        if isinstance(each, ast.Call) and last_name(each.func) == "pop"
    ]
    used = [node for each in places for node in ast.walk(each)]
    return any(node is call or (isinstance(node, ast.Name) and node.id in names) for node in used)


def _calls(function: ast.FunctionDef | None) -> Iterator[ast.Call]:
    return (
        each
        for each in (ast.walk(function) if function is not None else ())
        if isinstance(each, ast.Call)
    )


def _is_seeded_maker(call: ast.Call) -> bool:
    return last_name(call.func) in MAKERS and bool(call.args or call.keywords)


def _seeds(call: ast.Call, site: Site) -> bool:
    """Return whether a call sets a seed, directly or through a function of the program."""
    if last_name(call.func) in SEEDERS:
        return True
    code = getattr(site.f_globals.get(last_name(call.func)), "__code__", None)
    if code is None or is_library(code.co_filename):
        return False
    function = function_node(Site(code, 0, code.co_firstlineno, site.f_globals))
    inside = ast.walk(function) if function is not None else ()
    return any(isinstance(each, ast.Call) and last_name(each.func) in SEEDERS for each in inside)
