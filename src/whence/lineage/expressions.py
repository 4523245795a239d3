"""Lineage outside torch: from an expression back over names, parameters, attributes and returns to the one that made it so.

Live frames give values where there are any; where there are none, only steps that keep the property are taken.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from types import FrameType, FunctionType
from typing import Any

from whence.finding import Hop
from whence.lineage.elsewhere import NotPossible, run_elsewhere
from whence.lineage.grounds import Ground, ground_of, look_outside, may_call
from whence.lineage.lines import LineWatch
from whence.lineage.looking import Unknown, holders_of, look, names_of
from whence.lineage.overwritten import held_before
from whence.lineage.properties import Property
from whence.source.classes import method_of
from whence.source.definitions import (
    Definition,
    FunctionNode,
    Kind,
    argument_for,
    class_of_method,
    definitions_before,
    find_attribute,
    find_class,
    find_definition,
    find_function,
    is_bound_after,
    returns_of,
)
from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, last_name, parent_of, statement_of, tree_of

DEEPEST = 40
PASSED_ON = "passed on"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)

# Library calls through which a type, a column or a value passes from the first argument.
PASSING = {"array", "split", "array_split", "asarray", "ascontiguousarray", "tensor", "as_tensor", "from_numpy", "Tensor", "FloatTensor", "stack",
           "concatenate", "vstack", "hstack", "column_stack", "list", "tuple", "copy", "deepcopy", "LongTensor", "Variable",
           "repeat", "tile", "squeeze", "expand_dims", "transpose", "clip", "sorted", "iter", "next", "zip", "enumerate", "reversed"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Found:
    spot: Spot | None = None
    hops: tuple[Hop, ...] = ()
    made: tuple[ast.expr, Ground] | None = None
    """The expression that decided the property by itself, and where it stands."""


class Refuted(Exception):
    """What was followed without values cannot have the property: the one who followed it was the birth."""


@dataclass(slots=True)
class SourceTrace:
    """One search. `frames` are live frames of the program, innermost first."""

    prop: Property
    frames: list[FrameType]
    _hops: list[Hop] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _made: tuple[ast.expr, Ground] | None = None

    def follow(self, node: ast.AST, ground: Ground | None) -> Found:
        if ground is None or not isinstance(node, ast.expr):
            return Found()
        return self.follow_path(node, ground, ())

    def follow_node(self, node: ast.AST, filename: str) -> Found:
        """Begin with an expression of a file, whoever runs it."""
        return self.follow(node, self._ground_of_node(node, filename))

    def follow_path(self, node: ast.expr, ground: Ground, path: tuple[Any, ...]) -> Found:
        """Begin with a part of what an expression makes: element 1 of a tuple, key "image" of a dict."""
        try:
            spot = self._expression(node, ground, path)
        except Refuted:
            return Found()
        return Found(spot, tuple(reversed(self._hops)))

    def part_of(self, node: ast.expr, ground: Ground, path: tuple[Any, ...]) -> ast.expr:
        """The expression within an expression that makes a part of what that makes."""
        for key in path:
            inner: ast.expr | None = None
            if isinstance(node, ast.Tuple | ast.List) and isinstance(key, int) and key < len(node.elts):
                inner = node.elts[key]
            elif isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                inner = next((value for name, value in pairs if getattr(name, "value", None) == key), None)
            elif isinstance(node, ast.Call):
                inner = self._field_given(node, ground, key)
            if inner is None:
                return node
            node = inner
        return node

    def follow_object(self, thing: Any) -> Found:
        """Begin with an object: the variable that holds it, and its definition."""
        direct = ((name, frame, ()) for name, frame in names_of(thing, self.frames))
        within = ((name, frame, (key,)) for name, frame, key in holders_of(thing, self.frames))
        for name, frame, path in chain[tuple[str, FrameType, tuple[Any, ...]]](direct, within):
            try:
                spot = self._named(name, frame, path)
            except Refuted:
                continue
            if spot is not None:
                return Found(spot, tuple(reversed(self._hops)), self._made)
        return Found()

    def _named(self, name: str, frame: FrameType, path: tuple[Any, ...]) -> Spot | None:
        site = Site.of(frame)
        ground = ground_of((site, *_outer_sites(frame)), self.frames)
        if ground is None:
            return None
        if name not in frame.f_locals:
            ground = self._module_ground(ground)
        if ground is None:
            return None
        definition = find_definition(name, ground.scope, site.statement() if name in frame.f_locals else None)
        return self._definition(definition, ground, name=name, path=path) if definition is not None else None

    # Each of the following returns the spot of the birth, or None where the trail is lost.

    def _expression(self, node: ast.expr, ground: Ground, path: tuple[Any, ...] = ()) -> Spot | None:
        here = Spot.of_node(ground.filename, node)
        if id(node) in self._seen or len(self._seen) > DEEPEST:
            return here
        self._seen.add(id(node))
        if isinstance(node, ast.Name):
            return self._name(node, ground, path)
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, str)
        ):
            return self._expression(node.value, ground, (node.slice.value, *path)) or here
        if path and isinstance(node, ast.Tuple | ast.List) and isinstance(path[0], int) and path[0] < len(node.elts):
            return self._expression(node.elts[path[0]], ground, path[1:])
        if isinstance(node, ast.Tuple | ast.List) and len(node.elts) > 1:
            carrier = next(self._live_carriers(node, ground), None) if self.prop.singles_out else None
            return self._expression(carrier, ground) if carrier is not None else self._joined(node.elts, ground)
        for key, value in _entries(node) if path else ():
            if key == path[0]:
                return self._expression(value, ground, path[1:])
        if path and isinstance(node, ast.Call) and (field := self._field_given(node, ground, path[0])) is not None:
            return self._expression(field, ground, path[1:])
        if path and isinstance(node, ast.Call) and (elements := _elements_of(node)) is not None:
            return self._expression(elements, ground, path) or here
        if isinstance(node, ast.Attribute) and (number := self._field_number(node, ground)) is not None:
            return self._expression(node.value, ground, (number, *path)) or here
        if self.prop.contradicts(node):
            raise Refuted
        if isinstance(node, ast.Call) and (found := self._returned(node, ground, path)) is not None:
            return found
        if self.prop.is_set_by(node) and not self._carried_into(node, ground):
            self._made = node, ground
            return here
        if isinstance(node, ast.Attribute) and (found := self._attribute(node, ground, path)) is not None:
            return found
        for operand in self._live_carriers(node, ground):
            return self._expression(operand, ground) or here
        refuted = self._all_known_not_to_hold(node, ground)
        for operand in self._silent_carriers(node, ground):
            try:
                return self._expression(operand, ground) or here
            except Refuted:
                refuted = True
                if isinstance(node, ast.BinOp):
                    return here
        if refuted and isinstance(node, ast.Subscript | ast.Attribute | ast.Call) and _only_passes(node):
            raise Refuted
        return here

    def _field_given(self, node: ast.Call, ground: Ground, key: Any) -> ast.expr | None:
        """What a named tuple is made with for one of its fields."""
        try:
            kind = self._look(node.func, ground)
        except Unknown:
            return None
        names = getattr(kind, "_fields", ()) if isinstance(kind, type) else ()
        if not isinstance(key, int) or key >= len(names) or any(isinstance(each, ast.Starred) for each in node.args):
            return None
        given = dict(zip(names, node.args, strict=False)) | {each.arg: each.value for each in node.keywords if each.arg}
        return given.get(names[key])

    def _field_number(self, node: ast.Attribute, ground: Ground) -> int | None:
        """Which field of a named tuple an attribute is."""
        try:
            names = getattr(type(self._look(node.value, ground)), "_fields", ())
        except Unknown:
            return None
        return names.index(node.attr) if node.attr in names else None

    def _filled(self, name: str, scopes: dict[str, ast.AST], path: tuple[Any, ...]) -> Spot | None:
        """A part of the elements of a list or a deque that begins empty: what is appended to it, if that is done in one place."""
        found = [
            (node.args[0], file)
            for file, scope in scopes.items()
            for node in ast.walk(scope)
            if isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and (node.func.attr, len(node.args)) == ("append", 1)
            and last_name(node.func.value) == name
        ]
        if len(found) != 1:
            return None
        given, file = found[0]
        ground = self._ground_of_node(given, file)
        if not path or self.part_of(given, ground, path[:1]) is given:
            # Which part of it that is cannot be told.
            return None
        return self._expression(given, ground, path)

    def _files(self, filename: str) -> dict[str, ast.AST]:
        """The file, and those that are running."""
        names = dict.fromkeys((filename, *(frame.f_code.co_filename for frame in self.frames)))
        return {name: tree for name in names if (tree := tree_of(name)) is not None}

    def _all_known_not_to_hold(self, node: ast.expr, ground: Ground) -> bool:
        parts = [part for part in _parts(node) if not isinstance(part, ast.Constant)]
        return bool(parts) and self._is_known_not_to_hold(parts[0], ground)

    def _joined(self, parts: list[ast.expr], ground: Ground) -> Spot | None:
        """Several things put together: the first that has the property, or None if one of them cannot have it by itself."""
        if getattr(self.prop, "columns", 0) == len(parts):
            return self._expression(parts[self.prop.column], ground)  # type: ignore[attr-defined]
        found: Found | None = None
        for part in parts[:8]:
            if self._is_known_not_to_hold(part, ground):
                return None
            aside = SourceTrace(self.prop, self.frames, [], set())
            try:
                spot = aside._expression(part, ground)
            except Refuted:
                return None
            if self.prop.of_the_whole and spot == Spot.of_node(ground.filename, part):
                return None
            found = found or Found(spot, tuple(aside._hops))
        self._hops.extend(found.hops if found is not None else ())
        return found.spot if found is not None else None

    def _carried_into(self, node: ast.expr, ground: Ground) -> bool:
        return any(True for _ in self._live_carriers(node, ground))

    def _live_carriers(self, node: ast.expr, ground: Ground) -> Iterator[ast.expr]:
        """Parts of the expression whose value now has the property."""
        for part in _parts(node):
            try:
                value = self._look(part, ground)
            except Unknown:
                if isinstance(part, ast.Name):
                    held = ground.frame is not None and held_before(self.prop, part, ground.scope, ground.frame)
                else:
                    held = not isinstance(part, ast.Constant) and self._carried_into(part, ground)
                if held:
                    yield part
                continue
            if self.prop.holds(value):
                yield part

    def _silent_carriers(self, node: ast.expr, ground: Ground) -> Iterator[ast.expr]:
        """Parts that the property passes through by what the syntax says, where no value is known."""
        for part in _parts(node):
            if isinstance(part, ast.Constant) or self._is_known_not_to_hold(part, ground):
                continue
            if isinstance(node, ast.Call) and not _passes(node, part):
                continue
            yield part

    def _is_known_not_to_hold(self, part: ast.expr, ground: Ground) -> bool:
        try:
            return self.prop.holds(self._look(part, ground)) is False
        except Unknown:
            return False

    def _look(self, node: ast.expr, ground: Ground) -> Any:
        """The value that an expression had, if the names in it have not been bound anew since."""
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and is_bound_after(part.id, ground.scope, statement_of(node) or node):
                raise Unknown
        return look(node, ground.frame) if ground.frame is not None else look_outside(node, ground, self.frames)

    def _name(self, node: ast.Name, ground: Ground, path: tuple[Any, ...]) -> Spot | None:
        definition = self._reaching(node, ground)
        if definition is not None:
            return self._definition(definition, ground, name=node.id, path=path)
        module = self._module_ground(ground)
        if module is None or isinstance(ground.scope, ast.Module):
            return self._imported(node.id, ground)
        definition = find_definition(node.id, module.scope, None)
        if definition is not None:
            return self._definition(definition, module, path=path)
        return self._imported(node.id, ground)

    def _reaching(self, node: ast.Name, ground: Ground) -> Definition | None:
        """The definition that reaches a name; of several in the branches of an `if`, the one that gives such a value."""
        before = statement_of(node) or node
        last = find_definition(node.id, ground.scope, before)
        if last is None or not isinstance(enclosing(last.node, ast.If, *SCOPES), ast.If):
            return last
        for other in definitions_before(node.id, ground.scope, before):
            if isinstance(other.value, ast.Constant) and self.prop.holds(other.value.value):
                return other
        return last

    def _definition(
        self, definition: Definition, ground: Ground, *, name: str = "", path: tuple[Any, ...] = ()
    ) -> Spot | None:
        if definition.kind is Kind.PARAMETER:
            return self._argument(definition, ground, name, path)
        if definition.value is None:
            return None
        if _is_empty(definition.value):
            return self._filled(name, {ground.filename: ground.scope}, path) if name else None
        spot = Spot.of_node(ground.filename, definition.node)
        value, path = definition.value, (*definition.path, *path)
        if definition.kind is Kind.LOOP:
            value, path = _looped_over(value, path)
            if (found := self._iterated(value, ground, path)) is not None:
                return found
        born = self._expression(value, ground, path)
        if born is not None and born.line != spot.line and definition.kind is Kind.ASSIGNED:
            self._hops.append(spot.hop(PASSED_ON))
        return born

    def _iterated(self, node: ast.expr, ground: Ground, path: tuple[Any, ...]) -> Spot | None:
        """A loop over an object of the program's: what its `__iter__` yields."""
        try:
            thing = self._look(node.func if isinstance(node, ast.Call) else node, ground)
        except Unknown:
            return None
        kind = type(thing) if not isinstance(node, ast.Call) else thing
        method, filename = method_of(kind, "__iter__") if isinstance(kind, type) else (None, "")
        if method is None:
            return None
        yields = [each for each in returns_of(method) if isinstance(parent_of(each), ast.Yield)]
        return self._expression(yields[-1], Ground(filename, method), path) if yields else None

    def _argument(self, definition: Definition, ground: Ground, name: str, path: tuple[Any, ...]) -> Spot | None:
        """A parameter has the value its caller passed."""
        function = definition.node
        if not isinstance(function, FunctionNode):
            return None
        for call, outside in self._callers(function, ground):
            bound = class_of_method(function) is not None
            argument = argument_for(call, function, name, bound=bound)
            if argument is not None:
                return self._expression(argument, outside, path)
        return None

    def _callers(self, function: FunctionNode, ground: Ground) -> Iterator[tuple[ast.Call, Ground]]:
        if ground.caller is not None:
            yield ground.caller
            return
        if ground.outer:
            node = ground.outer[0].node()
            outside = ground_of(ground.outer, self.frames)
            if (
                isinstance(node, ast.Call)
                and outside is not None
                and may_call(node, outside, function, ground.filename)
            ):
                yield node, outside
                return
        # The frame is gone and nobody noted its caller: every call of that name in the running program's files.
        owner = class_of_method(function)
        called = owner.name if owner is not None and function.name == "__init__" else getattr(function, "name", "")  # type: ignore[union-attr]
        for filename in dict.fromkeys((*(frame.f_code.co_filename for frame in self.frames), ground.filename)):
            tree = tree_of(filename)
            for node in ast.walk(tree) if tree is not None else ():
                if isinstance(node, ast.Call) and last_name(node.func) == called:
                    yield node, self._ground_of_node(node, filename)

    def _ground_of_node(self, node: ast.AST, filename: str) -> Ground:
        walker: ast.AST | None = node
        while walker is not None and not isinstance(walker, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            walker = getattr(walker, "parent", None)
        tree = tree_of(filename)
        scope = walker or tree or node
        live = next(
            (
                each
                for each in self.frames
                if each.f_code.co_filename == filename and function_node(Site.of(each)) is scope
            ),
            None,
        )
        return Ground(filename, scope, live)

    def _module_ground(self, ground: Ground) -> Ground | None:
        tree = tree_of(ground.filename)
        if tree is None:
            return None
        frames = [each for each in self.frames if each.f_code.co_filename == ground.filename]
        module = next((each for each in frames if each.f_code.co_name == "<module>"), None)
        return Ground(ground.filename, tree, module)

    def _imported(self, name: str, ground: Ground) -> Spot | None:
        """A name that another file of the program defines."""
        tree = tree_of(ground.filename)
        for node in ast.walk(tree) if tree is not None else ():
            if isinstance(node, ast.ImportFrom) and any((each.asname or each.name) == name for each in node.names):
                original = next(each.name for each in node.names if (each.asname or each.name) == name)
                module = sys.modules.get(node.module or "")
                filename = getattr(module, "__file__", None)
                if filename and not is_library(filename) and (found := tree_of(filename)) is not None:
                    definition = find_definition(original, found, None)
                    if definition is not None:
                        return self._definition(definition, Ground(filename, found))
        return None

    def _attribute(self, node: ast.Attribute, ground: Ground, path: tuple[Any, ...]) -> Spot | None:
        """`self.x`: what the class puts there."""
        owner = self._class_of(node.value, ground)
        if owner is None:
            return None
        class_node, filename = owner
        if (made := self._constructed_again(node.value, ground)) is not None:
            return made
        definition = find_attribute(node.attr, class_node)
        if definition is None or definition.value is None:
            return self._field(node.attr, class_node, filename)
        if _is_empty(definition.value):
            return self._filled(node.attr, self._files(filename), path)
        method = next(
            each for each in class_node.body if isinstance(each, ast.FunctionDef) and definition.node in ast.walk(each)
        )
        inner = Ground(filename, method)
        try:
            held = look(node, ground.frame) if ground.frame is not None else None
        except Unknown:
            held = None
        if held is not None and isinstance(definition.value, ast.Name):
            found = SourceTrace(self.prop, self.frames, self._hops, self._seen).follow_object(held)
            if found.spot is not None:
                return found.spot
        return self._definition(definition, inner)

    def _constructed_again(self, node: ast.expr, ground: Ground) -> Spot | None:
        """The line of a constructor that made an attribute so, where the program still has all that it was called with."""
        try:
            thing = look(node, ground.frame) if self.prop.shows_in_lines and ground.frame is not None else None
        except Unknown:
            return None
        for name, frame in names_of(thing, self.frames) if thing is not None else ():
            site = Site.of(frame)
            outside = ground_of((site, *_outer_sites(frame)), self.frames)
            if outside is not None and name not in frame.f_locals:
                outside = self._module_ground(outside)
            definition = find_definition(name, outside.scope, None) if outside is not None else None
            if outside is not None and definition is not None and isinstance(definition.value, ast.Call):
                return self._made_again(definition.value, outside)
        return None

    def _field(self, name: str, class_node: ast.ClassDef, filename: str) -> Spot | None:
        """A class attribute or a dataclass field with a default."""
        for node in class_node.body:
            target = (
                node.target
                if isinstance(node, ast.AnnAssign)
                else node.targets[0]
                if isinstance(node, ast.Assign)
                else None
            )
            if isinstance(target, ast.Name) and target.id == name and getattr(node, "value", None) is not None:
                return Spot.of_node(filename, node)
        return None

    def _class_of(self, node: ast.expr, ground: Ground) -> tuple[ast.ClassDef, str] | None:
        if ground.frame is not None:
            try:
                kind = type(look(node, ground.frame))
            except Unknown:
                kind = None
            if kind is not None:
                filename = getattr(sys.modules.get(kind.__module__), "__file__", None) or ground.filename
                tree = None if is_library(filename) else tree_of(filename)
                found = find_class(kind.__name__, tree) if tree is not None else None
                return (found, filename) if found is not None else None
        if isinstance(node, ast.Name) and node.id == "self":
            owner = class_of_method(ground.scope)
            return (owner, ground.filename) if owner is not None else None
        return None

    def _returned(self, node: ast.Call, ground: Ground, path: tuple[Any, ...]) -> Spot | None:
        """A call of the program's own function: what that returns."""
        function, filename = self._function(node, ground)
        if (made := self._made_again(node, ground, path)) is not None:
            self._hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
            return made
        if function is None:
            return None
        inner = Ground(filename, function, caller=(node, ground))
        for returned in reversed(returns_of(function)):
            found = self._expression(returned, inner, path)
            if found is not None:
                self._hops.append(Spot.of_node(ground.filename, node).hop(PASSED_ON))
                return found
        return None

    def _made_again(self, node: ast.Call, ground: Ground, path: tuple[Any, ...] = ()) -> Spot | None:
        """The line within a function or a constructor after which a variable had the property: called again, aside."""
        if not self.prop.shows_in_lines or ground.frame is None:
            return None
        try:
            target = self._look(node.func, ground)
            args = [self._look(each, ground) for each in node.args]
            kwargs = {str(each.arg): self._look(each.value, ground) for each in node.keywords}
        except Unknown:
            return None
        code = getattr(
            getattr(target, "__init__" if isinstance(target, type) else "__func__", target), "__code__", None
        )
        if code is None or is_library(code.co_filename):
            return None
        for given, value in zip(
            (*node.args, *(each.value for each in node.keywords)), (*args, *kwargs.values()), strict=True
        ):
            if self.prop.holds(value):
                # It has it from outside.
                return self._expression(given, ground)

        def ask() -> Spot | None:
            watch = LineWatch(self.prop)
            watch.during(lambda: target(*copy.deepcopy(args), **copy.deepcopy(kwargs)))
            found = watch.spot("".join(f"[{each!r}]" for each in path))
            return found[0] if found is not None else None

        try:
            return run_elsewhere(ask)
        except NotPossible:
            return None

    def _function(self, node: ast.Call, ground: Ground) -> tuple[FunctionNode | None, str]:
        if ground.frame is not None:
            try:
                target = look(node.func, ground.frame)
            except Unknown:
                target = None
            target = getattr(target, "__func__", target)
            if isinstance(target, FunctionType):
                filename = target.__code__.co_filename
                tree = None if is_library(filename) else tree_of(filename)
                return (find_function(target.__name__, tree) if tree is not None else None), filename
            if target is not None:
                return None, ground.filename
        tree = tree_of(ground.filename)
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "self"
        ):
            name = node.func.attr
        found = find_function(name, tree) if tree is not None and name else None
        if found is None and isinstance(node.func, ast.Attribute):
            found = _only_method(node.func.attr, tree)
        if found is None and name:
            return _imported_function(name, tree, ground.filename)
        return found, ground.filename


def _only_method(name: str, tree: ast.Module | None) -> FunctionNode | None:
    """The method of that name, if one class of the file has it and no other."""
    kinds = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)] if tree is not None else []
    methods = [each for kind in kinds for each in kind.body if isinstance(each, FunctionNode) and each.name == name]
    return methods[0] if len(methods) == 1 else None


def _imported_function(name: str, tree: ast.Module | None, filename: str) -> tuple[FunctionNode | None, str]:
    """A function that another file of the program defines."""
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.ImportFrom):
            for each in node.names:
                module = sys.modules.get(node.module or "")
                source = getattr(module, "__file__", None)
                if (each.asname or each.name) == name and source and not is_library(source):
                    inner = tree_of(source)
                    return (find_function(each.name, inner) if inner is not None else None), source
    return None, filename


def _outer_sites(frame: FrameType) -> tuple[Site, ...]:
    found, walker = [], frame.f_back
    while walker is not None:
        if not is_library(walker.f_code.co_filename):
            found.append(Site.of(walker))
        walker = walker.f_back
    return tuple(found)


def _looped_over(node: ast.expr, path: tuple[Any, ...]) -> tuple[ast.expr, tuple[Any, ...]]:
    """Past `enumerate` and `zip`: what the named part of an element comes from."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and path and node.args:
        if node.func.id == "enumerate" and path[0] == 1:
            return _looped_over(node.args[0], path[1:])
        if node.func.id == "zip" and isinstance(path[0], int) and path[0] < len(node.args):
            return _looped_over(node.args[path[0]], path[1:])
    return node, path


def _entries(node: ast.expr) -> Iterator[tuple[Any, ast.expr]]:
    """The keys of a dict that is written out, with what stands there."""
    if isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if isinstance(key, ast.Constant):
                yield key.value, value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        yield from ((each.arg, each.value) for each in node.keywords)


# Calls that give some of the elements of what they are given first, or all of them.
ELEMENTS = {"sample", "choices", "list", "tuple", "sorted", "reversed"}


def _elements_of(node: ast.Call) -> ast.expr | None:
    """Of whose elements a call makes its own: `random.sample(X, 8)`; `zip(*X)` and `Step(*zip(*X))`, where each field stands together."""
    match node:
        case ast.Call(args=[ast.Starred(value=ast.Call(func=ast.Name(id="zip")) as inner)], keywords=[]):
            return _elements_of(inner)
        case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred(value=held)]):
            return held
        case ast.Call(args=[held, *_]) if last_name(node.func) in ELEMENTS:
            return held
    return None


def _is_empty(node: ast.expr) -> bool:
    """`[]`, `{}`, `list()`, None: what fills it later is what counts."""
    match node:
        case (
            ast.List(elts=[])
            | ast.Dict(keys=[])
            | ast.Constant(value=None)
            | ast.Call(args=[], keywords=[], func=ast.Name(id="list" | "dict"))
            | ast.Call(args=[], func=ast.Name(id="deque") | ast.Attribute(attr="deque"))
        ):
            return True
    return False


def _only_passes(node: ast.expr) -> bool:
    """Whether an expression makes nothing of its own: a part, a view, a copy of what it is given."""
    if not isinstance(node, ast.Call):
        return True
    name = last_name(node.func)
    return name in PASSING or name in {
        "reshape",
        "view",
        "ravel",
        "flatten",
        "T",
        "squeeze",
        "swapaxes",
        "transpose",
        "copy",
    }


def _parts(node: ast.expr) -> list[ast.expr]:
    """The operands of an expression, the likeliest bearer of the property first."""
    match node:
        case ast.Call(func=ast.Attribute(value=receiver), args=args, keywords=keywords):
            return [receiver, *map(_unstarred, args), *(keyword.value for keyword in keywords)]
        case ast.Call(args=args, keywords=keywords):
            return [*map(_unstarred, args), *(keyword.value for keyword in keywords)]
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case (
            ast.Subscript(value=value)
            | ast.Attribute(value=value)
            | ast.UnaryOp(operand=value)
            | ast.Starred(value=value)
        ):
            return [value]
        case ast.IfExp(body=body, orelse=orelse):
            return [body, orelse]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return list(elements)
        case ast.ListComp(elt=element) | ast.GeneratorExp(elt=element):
            return [element, *(each.iter for each in node.generators)]
        case ast.NamedExpr(value=value) | ast.Await(value=value):
            return [value]
    return []


def _unstarred(node: ast.expr) -> ast.expr:
    return node.value if isinstance(node, ast.Starred) else node


def _passes(call: ast.Call, part: ast.expr) -> bool:
    """Whether a property passes through a library call from this part: from the receiver, or as PASSING says."""
    if isinstance(call.func, ast.Attribute) and part is call.func.value:
        return not isinstance(part, ast.Name | ast.Attribute) or (
            last_name(part) not in sys.modules and not _is_module_path(part)
        )
    return bool(call.args) and part is _unstarred(call.args[0]) and last_name(call.func) in PASSING


def _is_module_path(node: ast.expr) -> bool:
    """`np.random`, `torch.nn.functional`: a dotted path that begins with the usual name of a module."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id in {
        "np",
        "numpy",
        "torch",
        "nn",
        "F",
        "pd",
        "random",
        "math",
        "os",
        "rng",
    }
