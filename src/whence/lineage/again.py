"""The turn of a loop in which something failed, made once more from the program's own lines.

Runs the program's code: only ever in a child process. What the turn has changed already stays changed, so that this is not the
same turn; but it goes the same way, and where it fails at the same line it can be watched on its way there.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any

from whence.lineage.looking import Unknown, look
from whence.source.sites import Site, variables
from whence.source.text import last_name, parent_of, statement_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)
WHOLE = (ast.FunctionDef, ast.AsyncFunctionDef)
LEFT = "__left__"
MOST_TURNS = 4


@dataclass(frozen=True, slots=True)
class Turn:
    """To be run in a child process. `is_whole` if its loop's variables are what they were when it began."""

    run: Callable[[], None]
    is_whole: bool


class _Left(Exception):
    """The turn ends before it comes to the line."""


def turns_of(
    stack: Sequence[Site], frames: Sequence[FrameType], delivered: Sequence[Any] = ()
) -> Iterator[Turn]:
    """For each function on the way to a place that is still running, the inner ones first: its turn that led there.

    Where a function was handed all it has, its own lines are too little, and those of the one that called it are wanted.
    """
    for site in stack[:MOST_TURNS]:
        frame = next((each for each in frames if each.f_code is site.f_code), None)
        turn = turn_of(site, frame, delivered) if frame is not None else None
        if turn is not None:
            yield turn


def turn_of(site: Site, frame: FrameType, delivered: Sequence[Any] = ()) -> Turn | None:
    """The lines of the innermost loop, or else of the function, up to and with the statement that a site stands in.

    What was delivered last is what the loop has begun with, if its lines have bound its variables anew.
    """
    node = site.node()
    statement = statement_of(node) if node is not None else site.statement()
    led = _leading_to(statement) if statement is not None else None
    if led is None:
        return None
    body, loop = led
    names = {**frame.f_globals, **variables(frame), LEFT: _Left}
    own = _names_in(loop.target) if isinstance(loop, ast.For) else set()
    if isinstance(loop, ast.For) and own & _bound_in(body):
        given = _given(loop, delivered[-1]) if delivered else None
        if given is None:
            # What they were made into is still there, and would be made into something else.
            body = [each for each in body if not (_bound_in([each]) and _bound_in([each]) <= own)]
        names |= given or {}
        own = own if given is None else set()
    return _turn(body, site, names, is_whole=not own & _bound_in(body))


def turns_before(stack: Sequence[Site], frames: Sequence[FrameType]) -> Iterator[Turn]:
    """The turn before the one that is under way, all of it, of loops that count."""
    for site in stack[:MOST_TURNS]:
        frame = next((each for each in frames if each.f_code is site.f_code), None)
        node = site.node()
        statement = statement_of(node) if node is not None else site.statement()
        led = _leading_to(statement) if statement is not None else None
        if frame is None or led is None or not isinstance(led[1], ast.For):
            continue
        began = _counted_before(led[1], frame)
        names = {**frame.f_globals, **variables(frame), LEFT: _Left, **began}
        turn = _turn(led[1].body, site, names, is_whole=True)
        if began and turn is not None:
            yield turn


def _counted_before(loop: ast.For, frame: FrameType) -> dict[str, Any]:
    """The number before in a range."""
    match loop:
        case ast.For(
            target=ast.Name(id=name),
            iter=ast.Call(func=ast.Name(id="range"), args=args, keywords=[]),
        ):
            try:
                counted = range(*(look(each, frame) for each in args))
                place = counted.index(variables(frame).get(name))  # type: ignore[arg-type]
            except (Unknown, TypeError, ValueError):
                return {}
            return {name: counted[place - 1]} if place else {}
    return {}


def _turn(body: list[ast.stmt], site: Site, names: dict[str, Any], is_whole: bool) -> Turn | None:
    try:
        *before, last = [compiled(each, site) for each in body if not _is_fetch(each)]
    except (SyntaxError, ValueError):
        return None

    def run() -> None:
        for code in before:
            try:
                exec(code, names)
            except _Left:
                return
            except Exception:
                # It cannot be done twice: the next batch cannot be had. What it gave is still there.
                continue
        exec(last, names)

    return Turn(run, is_whole)


def rests_of(stack: Sequence[Site], frames: Sequence[FrameType]) -> Iterator[Callable[[], None]]:
    """What a program did the last time after it came by a place: the lines that follow there, the inner functions first.

    The statement that the place stands in is among them, in the innermost function only: it is running there now, and in the
    others it has still what it gave the last time.
    """
    for site in stack[:MOST_TURNS]:
        frame = next((each for each in frames if each.f_code is site.f_code), None)
        node = site.node()
        statement = statement_of(node) if node is not None else site.statement()
        if frame is None or statement is None:
            continue
        body = _following(statement)
        if site is stack[0]:
            body = [statement, *body]
        try:
            codes = [compiled(each, site) for each in body]
        except (SyntaxError, ValueError):
            continue
        yield partial(_run_all, codes, {**frame.f_globals, **variables(frame), LEFT: _Left})


def _run_all(codes: Sequence[CodeType], names: dict[str, Any]) -> None:
    for code in codes:
        try:
            exec(code, names)
        except _Left:
            return
        except Exception:
            # It cannot be done twice.
            continue


def _following(statement: ast.stmt) -> list[ast.stmt]:
    """The statements after one, out of its loop and the loop around that, but not out of all loops."""
    found: list[ast.stmt] = []
    current: ast.AST = statement
    inner: list[ast.stmt] = []
    while True:
        parent = parent_of(current)
        block = (
            next((each for each in _blocks(parent) if current in each), None)
            if parent is not None
            else None
        )
        if parent is None or block is None or isinstance(parent, ast.Module):
            return found
        inner += block[block.index(current) + 1 :]  # type: ignore[arg-type]
        if isinstance(parent, ast.With | ast.AsyncWith) and inner:
            inner = [_with_body(parent, inner)]
        if isinstance(parent, LOOPS + WHOLE):
            found, inner = [*found, *inner], []
        if isinstance(parent, WHOLE):
            return found
        current = parent


def compiled(statement: ast.stmt, site: Site) -> CodeType:
    """As a program of its own, which goes by the name of the function that it stands in."""
    module = _Leaving().visit(ast.Module([_copied(statement)], []))
    code = compile(ast.fix_missing_locations(module), site.filename, "exec", dont_inherit=True)
    own = site.f_code
    return code.replace(co_name=own.co_name, co_qualname=own.co_qualname)


def _is_fetch(statement: ast.stmt) -> bool:
    """`batch = next(batches)`: what it gave is still there, and a second time it would give another."""
    match statement:
        case ast.Assign(value=ast.Call(func=ast.Name(id="next"))):
            return True
    return False


def _names_in(target: ast.expr) -> set[str]:
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


SETTLING = frozenset({"to", "cuda", "cpu", "float", "double", "half", "bfloat16", "long", "int", "bool", "contiguous", "detach",
                      "requires_grad_"})  # fmt: skip
"""Methods that do nothing when they are called again on what they gave."""


def _bound_in(body: list[ast.stmt]) -> set[str]:
    """The variables that are given something else: `x = x / 255`, `x += noise`; not `x = x.to(device)`."""
    found: set[str] = set()
    for node in (each for statement in body for each in ast.walk(statement)):
        match node:
            case ast.Assign(targets=targets, value=value):
                parts = value.elts if isinstance(value, ast.Tuple) else [value]
                if not all(
                    isinstance(each, ast.Call) and last_name(each.func) in SETTLING
                    for each in parts
                ):
                    found |= set[str]().union(*map(_names_in, targets))
            case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
                found |= _names_in(target)
    return found


def _given(loop: ast.For, data: Any) -> dict[str, Any] | None:
    """What the variables of a loop over a loader, or over `enumerate(loader)`, have when a turn begins."""
    target = loop.target
    if (
        isinstance(loop.iter, ast.Call)
        and last_name(loop.iter.func) == "enumerate"
        and isinstance(target, ast.Tuple)
    ):
        target = target.elts[-1]
    return _taken_apart(target, data)


def _taken_apart(target: ast.expr, data: Any) -> dict[str, Any] | None:
    if isinstance(target, ast.Name):
        return {target.id: data}
    if not isinstance(target, ast.Tuple | ast.List) or not isinstance(data, tuple | list):
        return None
    if len(target.elts) != len(data):
        return None
    found = [_taken_apart(each, part) for each, part in zip(target.elts, data, strict=True)]
    return (
        {name: part for each in found if each is not None for name, part in each.items()}
        if None not in found
        else None
    )


def _leading_to(statement: ast.stmt) -> tuple[list[ast.stmt], ast.AST] | None:
    """With the contexts around it, and without what would catch its failure; and the loop, or function, that they are in."""
    body: list[ast.stmt] = [statement]
    current: ast.AST = statement
    while True:
        parent = parent_of(current)
        block = (
            next((each for each in _blocks(parent) if current in each), None)
            if parent is not None
            else None
        )
        if parent is None or block is None:
            return None
        if current is not statement:
            body = (
                [_with_body(current, body)]
                if isinstance(current, ast.With | ast.AsyncWith)
                else body
            )
        body = [*block[: block.index(current)], *body]  # type: ignore[arg-type]
        if isinstance(parent, LOOPS + WHOLE):
            return body, parent
        current = parent


def _blocks(node: ast.AST) -> list[list[ast.stmt]]:
    found = [getattr(node, name, None) for name in ("body", "orelse", "finalbody")]
    return [each for each in found if isinstance(each, list)]


def _with_body(node: ast.With | ast.AsyncWith, body: list[ast.stmt]) -> ast.stmt:
    return ast.copy_location(type(node)(items=node.items, body=body), node)


def _copied(tree: Any) -> Any:
    """Without the links to parents that hang on the trees of files."""
    if isinstance(tree, list):
        return [_copied(each) for each in tree]
    if not isinstance(tree, ast.AST):
        return tree
    return ast.copy_location(
        type(tree)(**{name: _copied(each) for name, each in ast.iter_fields(tree)}), tree
    )


class _Leaving(ast.NodeTransformer):
    """Where a statement would leave the loop or the function that it stood in, it ends the turn.

    Of what is in loops within, only returns lead out; of what is in functions, nothing.
    """

    def __init__(self, within: bool = False) -> None:
        self._within = within

    def visit(self, node: ast.AST) -> Any:
        match node:
            case ast.Return():
                return _left(node)
            case ast.Break() | ast.Continue():
                return node if self._within else _left(node)
            case ast.For() | ast.AsyncFor() | ast.While():
                return _Leaving(within=True).generic_visit(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return node
            case ast.Nonlocal():
                return ast.copy_location(ast.Pass(), node)
            case ast.Expr(value=ast.Yield(value=ast.expr() as given)):
                # Nobody takes it; but what it is made of may be asked for.
                return self.generic_visit(ast.copy_location(ast.Expr(given), node))
            case ast.Yield() | ast.YieldFrom():
                return ast.copy_location(ast.Constant(None), node)
        return self.generic_visit(node)


def _left(node: ast.stmt) -> ast.stmt:
    return ast.copy_location(ast.Raise(exc=ast.Name(LEFT, ast.Load()), cause=None), node)
