"""Which handler will catch an exception that is being raised, and whether it recovers."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto
from types import FrameType
from typing import Any

from whence.source.sites import RUNNER, Site, is_library, is_own, variables
from whence.source.text import function_node, parent_of

EXPECTING = ("raises", "assertRaises", "assertRaisesRegex")


class Fate(Enum):
    """What becomes of an exception."""

    UNCAUGHT = auto()
    CAUGHT = auto()
    """The program swallows it: it prints or logs, and continues without the result."""
    MENDED = auto()
    """The program has a fallback, a retry or an assertion for it, so the failure is expected."""
    INTERNAL = auto()
    """A library raises and catches it internally."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A `try` around the running statement whose handler catches the exception."""

    attempt: ast.Try
    handler: ast.ExceptHandler
    failing: ast.AST | None = None
    """What was running, if that is known for certain."""


def fate_of(exception: BaseException, frames: Iterable[FrameType]) -> Fate:
    """Predict the fate of an exception from the frames it is about to pass, innermost first."""
    for frame in frames:
        if frame.f_code.co_filename == RUNNER:
            break
        if is_own(frame.f_code.co_filename):
            # Lines of the program run again here: the frames further out are those of the original
            # failure.
            continue
        if not is_library(frame.f_code.co_filename) and _is_assertion(Site.of(frame).node()):
            return Fate.MENDED
        if not _has_handler_here(frame):
            continue
        for guard in _guards_around(frame, exception):
            if guard is None:
                return Fate.MENDED
            if _passes_on(guard.handler):
                continue
            if is_library(frame.f_code.co_filename):
                return Fate.INTERNAL
            return Fate.MENDED if _recovers(guard) else Fate.CAUGHT
    return Fate.UNCAUGHT


def _has_handler_here(frame: FrameType) -> bool:
    entries = dis.Bytecode(frame.f_code).exception_entries  # type: ignore[attr-defined]
    return any(entry.start <= frame.f_lasti < entry.end for entry in entries)


def _guards_around(frame: FrameType, exception: BaseException) -> Iterator[Guard | None]:
    """Return the handlers that would catch the exception, innermost first.

    None represents `with pytest.raises(...)` and the like.
    """
    site = Site.of(frame)
    child: ast.AST | None = site.node() or site.statement()
    while child is not None:
        parent = parent_of(child)
        if isinstance(parent, ast.Try) and child in parent.body:
            for handler in parent.handlers:
                if _takes(handler, exception, frame):
                    yield Guard(parent, handler, site.node())
                    break
        items = parent.items if isinstance(parent, ast.With) and child in parent.body else ()
        if any(_expects_failure(item.context_expr, frame) for item in items):
            yield None
        child = parent


def _expects_failure(manager: ast.expr, frame: FrameType) -> bool:
    """Return whether a `with` expects the failure.

    It is an assertion of a test framework, or a context manager of the program that raises on
    success.
    """
    if _is_assertion(manager) or not isinstance(manager, ast.Call):
        return _is_assertion(manager)
    made = _look_up(manager.func, frame)
    leaving = getattr(made, "__exit__", None) if isinstance(made, type) else made
    code = getattr(inspect.unwrap(leaving), "__code__", None) if callable(leaving) else None
    body = (
        function_node(Site(code, 0, 0, {}))
        if code is not None and not is_library(code.co_filename)
        else None
    )
    wants = _raises_on_success if isinstance(made, type) else _fails_on_success
    return body is not None and any(map(wants, ast.walk(body)))


def _raises_on_success(node: ast.AST) -> bool:
    """Return whether a node raises on success: `if kind is None: raise ...`, on leaving a block."""
    if not isinstance(node, ast.If) or not any(isinstance(each, ast.Raise) for each in node.body):
        return False
    test = node.test
    nothing = (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Is)
        and ast.unparse(test.comparators[0]) == "None"
    )
    return nothing or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def _fails_on_success(attempt: ast.AST) -> bool:
    return isinstance(attempt, ast.Try) and any(
        isinstance(node, ast.Raise) for node in (*attempt.orelse, attempt.body[-1])
    )


def _is_assertion(node: ast.AST | None) -> bool:
    """Return whether a call asserts a failure: `self.assertRaises(...)`, `pytest.raises(...)`."""
    called = node.func if isinstance(node, ast.Call) else None
    name = (
        called.attr
        if isinstance(called, ast.Attribute)
        else called.id
        if isinstance(called, ast.Name)
        else ""
    )
    return name.endswith(EXPECTING)


def _takes(handler: ast.ExceptHandler, exception: BaseException, frame: FrameType) -> bool:
    if handler.type is None:
        return True
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    kinds = [_look_up(each, frame) for each in named]
    return any(isinstance(kind, type) and isinstance(exception, kind) for kind in kinds)


def _look_up(node: ast.expr, frame: FrameType) -> Any:
    if isinstance(node, ast.Name):
        for names in (variables(frame), frame.f_globals, vars(builtins)):
            if node.id in names:
                return names[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_look_up(node.value, frame), node.attr, None)
    return None


def _passes_on(handler: ast.ExceptHandler) -> bool:
    """Return whether the handler always ends by raising.

    A `raise` under an `if` (out of memory, say) counts as catching.
    """
    return any(isinstance(statement, ast.Raise) for statement in handler.body)


def _recovers(guard: Guard) -> bool:
    """Return whether the handler recovers from the failure.

    It does so if it supplies the missing result, changes what the body reads, retries, or returns
    another value. The same holds if the `try` is in a loop that searches for the first success, or
    exists to observe the failure.
    """
    body, handler = guard.attempt.body, guard.handler
    if _fails_on_success(guard.attempt) or _tries_again(guard):
        return True
    needed = {
        node.id for statement in body for node in ast.walk(statement) if isinstance(node, ast.Name)
    }
    for statement in handler.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign) and _supplies(
                node, needed, handler
            ):
                return True
    returns_value = any(isinstance(node, ast.Return) and node.value is not None for node in body)
    if returns_value and any(
        _is_result(node.value, handler) for node in handler.body if isinstance(node, ast.Return)
    ):
        return True
    return _is_search(guard)


def _tries_again(guard: Guard) -> bool:
    """Return whether the handler repeats the failed call with different arguments."""
    failing = guard.failing
    return isinstance(failing, ast.Call) and any(
        isinstance(node, ast.Call)
        and ast.unparse(node.func) == ast.unparse(failing.func)
        and ast.unparse(node) != ast.unparse(failing)
        for statement in guard.handler.body
        for node in ast.walk(statement)
    )


def _supplies(
    node: ast.Assign | ast.AugAssign | ast.AnnAssign, needed: set[str], handler: ast.ExceptHandler
) -> bool:
    if isinstance(node, ast.AugAssign):
        # A counter such as `skipped += 1` is bookkeeping unless the body reads it; `jitter *= 10`
        # before the next attempt is not.
        return isinstance(node.target, ast.Name) and node.target.id in needed
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    names = {
        each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)
    }
    return bool(names & needed) and _is_result(node.value, handler)


def _is_result(value: ast.expr | None, handler: ast.ExceptHandler) -> bool:
    """Return whether a value can replace the failed one.

    A constant, NaN or the error itself cannot.
    """
    if (
        value is None
        or isinstance(value, ast.Constant)
        or ast.unparse(value) in ("float('nan')", "math.nan", "np.nan")
    ):
        return False
    return not any(
        isinstance(node, ast.Name) and node.id == handler.name for node in ast.walk(value)
    )


def _is_search(guard: Guard) -> bool:
    """Return whether a `try` is in a loop over candidates.

    Such a loop ends with the first success, or keeps the last success before the first failure.
    """
    attempt = guard.attempt
    loop = parent_of(attempt)
    if not isinstance(loop, ast.For | ast.While) or attempt not in loop.body:
        return False
    keeps = len(attempt.body) == 1 and isinstance(attempt.body[0], ast.Assign)
    if (
        keeps
        and any(isinstance(statement, ast.Break) for statement in guard.handler.body)
        and loop.body == [attempt]
    ):
        return True
    after = [*attempt.body, *attempt.orelse, *loop.body[loop.body.index(attempt) + 1 :]]
    return any(isinstance(statement, ast.Return | ast.Break) for statement in after)
