"""Where a program seeds its random numbers, read from its lines."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from whence.source.classes import method_of
from whence.source.definitions import own_nodes
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name

SEEDERS = frozenset({"manual_seed", "seed", "seed_everything", "set_seed"})
MAKERS = frozenset({"default_rng", "RandomState", "Random"})
"""These make a generator, which begins alike if they are given a seed."""
DEEPEST = 4


def seeding_before(stack: tuple[Site, ...], *, makers: bool = False) -> Spot | None:
    """Where a seed is set before a line, whenever that is reached: in the functions on the way to it, up to a loop around it."""
    for site in stack:
        scope, statement = function_node(site), site.statement()
        if scope is None or statement is None:
            return None
        loop = enclosing(statement, ast.For, ast.While, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
        within = loop if isinstance(loop, ast.For | ast.While) else scope
        if isinstance(within, ast.Module):
            return None
        last = site.f_lineno if hasattr(statement, "body") else statement.end_lineno or site.f_lineno
        found = [each for each in own_nodes(within) if isinstance(each, ast.Call) and each.lineno <= last]
        seeds = [each for each in found if _seeds(each, site) or (makers and _is_seeded_maker(each))]
        if seeds:
            return Spot.of_node(site.filename, seeds[-1])
        if isinstance(loop, ast.For | ast.While):
            return None
    return None


def seeding_in(kind: type, name: str) -> Spot | None:
    """Where a method, or one of the same object that it calls, seeds or makes a generator."""
    pending, seen = [name], set[str]()
    while pending and len(seen) < DEEPEST:
        seen.add(name := pending.pop(0))
        method, filename = method_of(kind, name)
        for call in _calls(method):
            if (last_name(call.func) in SEEDERS and call.args) or _is_seeded_maker(call):
                return Spot.of_node(filename, call)
            if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self":
                pending += [call.func.attr] if call.func.attr not in seen else []
    return None


def _calls(function: ast.FunctionDef | None) -> Iterator[ast.Call]:
    return (each for each in (ast.walk(function) if function is not None else ()) if isinstance(each, ast.Call))


def _is_seeded_maker(call: ast.Call) -> bool:
    return last_name(call.func) in MAKERS and bool(call.args or call.keywords)


def _seeds(call: ast.Call, site: Site) -> bool:
    """Whether a call sets a seed, or calls a function of the program's that does."""
    if last_name(call.func) in SEEDERS:
        return True
    code = getattr(site.f_globals.get(last_name(call.func)), "__code__", None)
    if code is None or is_library(code.co_filename):
        return False
    function = function_node(Site(code, 0, code.co_firstlineno, site.f_globals))
    inside = ast.walk(function) if function is not None else ()
    return any(isinstance(each, ast.Call) and last_name(each.func) in SEEDERS for each in inside)
