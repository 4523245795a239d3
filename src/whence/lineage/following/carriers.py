"""Which operands of an expression bring the property: those whose value shows it, and those it may pass through where no value is known."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from whence.lineage.following.passing import is_number, parts_of, passes
from whence.lineage.grounds import Ground, look_at
from whence.lineage.looking import Unknown
from whence.lineage.overwritten import held_before
from whence.source.definitions import is_bound_after
from whence.source.text import statement_of

if TYPE_CHECKING:
    from whence.lineage.following.trace import SourceTrace


HOLDERS = ("__len__", "__iter__", "__next__", "__array__", "__getitem__", "read")
"""By which something gives data that it has."""


def value_of(trace: SourceTrace, node: ast.expr, ground: Ground) -> Any:
    """The value that an expression had, if the names in it have not been bound anew since."""
    if _is_stale(node, ground):
        raise Unknown
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and is_bound_after(
            part.id, ground.scope, statement_of(node) or node
        ):
            raise Unknown
    return look_at(node, ground, trace.frames)


def _is_stale(node: ast.expr, ground: Ground) -> bool:
    """Whether it reads what is being set here, and which was something else before."""
    places = (part for part in ast.walk(node) if isinstance(part, ast.Name | ast.Attribute))
    return bool(ground.stale) and any(ast.unparse(part) == ground.stale for part in places)


def live_carriers(trace: SourceTrace, node: ast.expr, ground: Ground) -> Iterator[ast.expr]:
    """Parts of the expression whose value now has the property."""
    for part in parts_of(node):
        try:
            value = value_of(trace, part, ground)
        except Unknown:
            if isinstance(part, ast.Name) or _is_column(part):
                held = ground.frame is not None and held_before(
                    trace.prop, part, ground.scope, ground.frame
                )
            else:
                held = not isinstance(part, ast.Constant) and is_carried_into(trace, part, ground)
            if held:
                yield part
            continue
        if trace.prop.holds(value):
            yield part


def _is_column(node: ast.expr) -> bool:
    """`table["age"]`: what the table shows as a whole says nothing of it."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    )


def is_carried_into(trace: SourceTrace, node: ast.expr, ground: Ground) -> bool:
    return any(True for _ in live_carriers(trace, node, ground))


def silent_carriers(trace: SourceTrace, node: ast.expr, ground: Ground) -> Iterator[ast.expr]:
    """Parts that the property passes through by what the syntax says, where no value is known."""
    for part in parts_of(node):
        if isinstance(part, ast.Constant) or is_known_not_to_hold(trace, part, ground):
            continue
        if _is_stale(part, ground) or (
            isinstance(node, ast.BinOp) and is_number(part, ground.scope)
        ):
            continue
        if isinstance(node, ast.Call) and (
            not passes(node, part) or _is_a_doer(trace, node, part, ground)
        ):
            continue
        yield part


def _is_a_doer(trace: SourceTrace, call: ast.Call, part: ast.expr, ground: Ground) -> bool:
    """Whether a method is called on something that holds no data: a fitted scaler makes what it gives of its argument."""
    if not isinstance(call.func, ast.Attribute) or part is not call.func.value:
        return False
    try:
        thing = value_of(trace, part, ground)
    except Unknown:
        return False
    return trace.prop.holds(thing) is None and not any(hasattr(thing, each) for each in HOLDERS)


def is_known_not_to_hold(trace: SourceTrace, part: ast.expr, ground: Ground) -> bool:
    try:
        return trace.prop.holds(value_of(trace, part, ground)) is False
    except Unknown:
        return False


def is_refuted_by_parts(trace: SourceTrace, node: ast.expr, ground: Ground) -> bool:
    """Whether the likeliest bearer of the property is known not to have it."""
    parts = [part for part in parts_of(node) if not isinstance(part, ast.Constant)]
    return bool(parts) and is_known_not_to_hold(trace, parts[0], ground)
