"""Who keeps a tensor from one step to the next, an attribute, an entry of a container or a variable, and the line that puts it there."""

from __future__ import annotations

import ast
import gc
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any

import torch
from torch import nn

from whence.source.classes import class_node
from whence.source.definitions import class_of_method, is_empty, own_nodes
from whence.source.files import program_files
from whence.source.sites import Site, is_library, variables
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, statement_of, tree_of
from whence.tape.scene import Scene

DEEPEST = 4
MOST_THINGS = 20_000
MOST_ENTRIES = 4_096
CONTAINERS = (list, tuple, deque, dict, set)
FILLS = frozenset(
    {"append", "extend", "insert", "appendleft", "add", "setdefault", "update", "put"}
)


@dataclass(frozen=True, slots=True)
class Keeper:
    """The last name on the way to a tensor: `cache` of `self.cache[key]`."""

    name: str
    owner: Any = None
    """The object whose attribute it is; None for a variable."""
    where: FrameType | CodeType | None = None
    """Whose variable it is: a frame's, or one that a function keeps between its calls."""
    is_cache: bool = False
    """It is a function whose results are kept."""

    def stores(self) -> Iterator[tuple[str, ast.stmt]]:
        """The statements that put something there. Empty beginnings, and what forgets, are none."""
        for filename, scope in self._scopes():
            if self.is_cache and isinstance(self.where, CodeType):
                yield from ((filename, each) for each in _returns(scope, self.where))
                continue
            for node in ast.walk(scope):
                statement = statement_of(node) if any(map(self._is_it, _filled(node))) else None
                if statement is not None:
                    yield filename, statement

    def _scopes(self) -> list[tuple[str, ast.AST]]:
        if self.owner is not None:
            return [(name, tree) for name in program_files() if (tree := tree_of(name)) is not None]
        if isinstance(self.where, CodeType):
            tree = tree_of(self.where.co_filename)
            return [(self.where.co_filename, tree)] if tree is not None else []
        scope = function_node(Site.of(self.where)) if self.where is not None else None
        if self.where is not None and self.name not in variables(self.where):
            scope = tree_of(self.where.f_code.co_filename)
        return (
            [(self.where.f_code.co_filename, scope)]
            if self.where is not None and scope is not None
            else []
        )

    def is_read_by(self, statement: ast.stmt) -> bool:
        """Whether a statement also reads what is kept there: `out, h = cell(x, h)`."""
        value = getattr(statement, "value", None)
        read = (
            [each for each in ast.walk(value) if isinstance(each, ast.expr)]
            if value is not None
            else []
        )
        return isinstance(statement, ast.AugAssign) or any(
            self._is_it(each) for each in read if isinstance(each, ast.Name | ast.Attribute)
        )

    def _is_it(self, place: ast.expr) -> bool:
        while isinstance(place, ast.Subscript):
            place = place.value
        if self.owner is None:
            return isinstance(place, ast.Name) and place.id == self.name
        if not isinstance(place, ast.Attribute) or place.attr != self.name:
            return False
        # In a method of another class `self` is another thing.
        method = enclosing(place, ast.FunctionDef, ast.AsyncFunctionDef)
        inside = class_of_method(method) if method is not None else None
        is_own = isinstance(place.value, ast.Name) and place.value.id == "self"
        return (
            not is_own
            or inside is None
            or inside.name in {kind.__name__ for kind in type(self.owner).__mro__}
        )


def _filled(node: ast.AST) -> Iterator[ast.expr]:
    """What a statement or a call puts something into."""
    match node:
        case ast.Assign(targets=targets, value=value) if not is_empty(value):
            yield from _places(targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value) if not is_empty(value):
            yield target
        case ast.AugAssign(target=target):
            yield target
        case ast.Call(func=ast.Attribute(value=held, attr=method)) if method in FILLS:
            yield held


def _places(targets: list[ast.expr]) -> Iterator[ast.expr]:
    for target in targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from _places(target.elts)
        else:
            yield target


def keepers_of(is_it: Callable[[torch.Tensor], bool], scene: Scene) -> list[Keeper]:
    """The attributes, entries and variables by which the program can still reach a tensor; attributes and entries of them first."""
    found: list[Keeper] = []
    pending: deque[tuple[Any, Keeper, int]] = deque(
        (each, keeper, 0) for keeper, each in _variables(scene.frames)
    )
    pending += [
        (each, Keeper(name, module), 0)
        for module in scene.modules.known()
        for name, each in _attributes(module)
    ]
    seen: set[int] = set()
    while pending and len(seen) < MOST_THINGS:
        thing, keeper, depth = pending.popleft()
        if issubclass(type(thing), torch.Tensor):
            found += [keeper] if is_it(thing) else []
        elif id(thing) not in seen and depth <= DEEPEST:
            seen.add(id(thing))
            pending += [(each, inner, depth + 1) for inner, each in _held(thing, keeper)]
    return sorted(found, key=lambda each: each.owner is None)


def _held(thing: Any, keeper: Keeper) -> Iterator[tuple[Keeper, Any]]:
    """What a thing holds, and by which name: an entry of a container goes by the container's."""
    if type(thing) in CONTAINERS:
        entries = thing.values() if isinstance(thing, dict) else thing
        yield from ((keeper, each) for each, _ in zip(entries, range(MOST_ENTRIES), strict=False))
    elif isinstance(thing, FunctionType):
        yield from _kept_by_function(thing)
    elif isinstance(thing, GeneratorType):
        frame = thing.gi_frame
        for name, each in variables(frame).items() if frame is not None else ():
            yield Keeper(name, None, frame), each
    elif (
        isinstance(getattr(thing, "__wrapped__", None), FunctionType)
        and type(thing).__module__ == "functools"
    ):
        code = thing.__wrapped__.__code__
        for each in gc.get_referents(thing):
            if type(each) is dict:
                yield Keeper(code.co_name, None, code, is_cache=True), list(each.values())
    else:
        yield from ((Keeper(name, thing), each) for name, each in _attributes(thing))


def _kept_by_function(function: FunctionType) -> Iterator[tuple[Keeper, Any]]:
    """What a function has from one call to the next: what it closes over, and its defaults."""
    code = function.__code__
    if is_library(code.co_filename):
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        with suppress(ValueError):
            yield Keeper(name, None, code), cell.cell_contents
    names = code.co_varnames[: code.co_argcount]
    defaults = function.__defaults__ or ()
    for name, each in (
        *zip(names[len(names) - len(defaults) :], defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ):
        yield Keeper(name, None, code), each


def _returns(tree: ast.AST, code: CodeType) -> Iterator[ast.stmt]:
    function = function_node(Site(code, 0, code.co_firstlineno, {}))
    return (each for each in own_nodes(function or tree) if isinstance(each, ast.Return))


def _variables(frames: list[FrameType]) -> Iterator[tuple[Keeper, Any]]:
    seen: set[int] = set()
    for frame in frames:
        is_file = frame.f_code.co_name == "<module>"
        for names in ({} if is_file else variables(frame), frame.f_globals):
            if names is frame.f_globals and id(names) in seen:
                continue
            seen.add(id(names))
            for name, each in list(names.items()):
                if not name.startswith("__") and not isinstance(each, ModuleType):
                    yield Keeper(name, None, frame), each


def _attributes(thing: Any) -> list[tuple[str, Any]]:
    """Read without running anything: of the program's own objects, and of modules also what is registered."""
    kind = type(thing)
    if issubclass(kind, type | ModuleType) or kind.__module__ == "builtins":
        return []
    if not issubclass(kind, nn.Module) and class_node(kind)[0] is None:
        return []
    try:
        held = object.__getattribute__(thing, "__dict__")
    except AttributeError:
        return []
    return [
        (name, each)
        for name, each in dict(held).items()
        if name not in ("_parameters", "_forward_hooks")
    ]


def put_there(keeper: Keeper, stack: tuple[Site, ...] = ()) -> Spot | None:
    """The line that puts a tensor where it is kept: the one that was running when it was made, else the only one there is.

    Where a variable is set before a loop and in it, that is the one in the loop.
    """
    stores = list(keeper.stores())
    for site in stack:
        running = site.statement() if not is_library(site.filename) else None
        for filename, statement in stores:
            if (
                running is not None
                and filename == site.filename
                and statement.lineno == running.lineno
            ):
                return Spot.of_node(filename, statement)
    again = [each for each in stores if enclosing(each[1], ast.For, ast.While) is not None]
    left = again if keeper.owner is None and again else stores
    return Spot.of_node(*left[0]) if len(left) == 1 else None
