"""Diffs that shift the labels of a sequence by one against its predictions."""

from __future__ import annotations

import ast

from whence.rules.source_operands import operand_nodes
from whence.source.edits import Edit, diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.tape import Call, Value

KEEPS_PLACES = frozenset({"flatten", "contiguous", "transpose", "permute", "mT", "float", "long"})
"""Methods that work for any number of positions."""


def shifted_by(spot: Spot, places: int) -> str | None:
    """Change `ids[:, :-1]` to `ids[:, 1:]` to shift labels by one, and back for minus one."""
    last = _last_slice(spot.node())
    if places == 1 and last is not None and _is_cut(last, "", "-1"):
        return diff_of(replace_node(spot.filename, last, "1:"))
    if places == -1 and last is not None and _is_cut(last, "1", ""):
        return diff_of(replace_node(spot.filename, last, ":-1"))
    return None


def leaves_out_first(call: Call) -> bool:
    last = _last_slice(call.site.node() if call.site is not None else None)
    return last is not None and _is_cut(last, "1", "")


def _last_slice(node: ast.AST | None) -> ast.Slice | None:
    if not isinstance(node, ast.Subscript):
        return None
    last = (
        node.slice.elts[-1] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    )
    return last if isinstance(last, ast.Slice) else None


def _is_cut(cut: ast.Slice, lower: str, upper: str) -> bool:
    ends = (ast.unparse(each) if each is not None else "" for each in (cut.lower, cut.upper))
    return cut.step is None and (lower, upper) == tuple(ends)


def shifted_in_loss(loss: Call, time: int) -> str | None:
    """A diff that drops the last prediction and the first label in the call of the loss."""
    nodes = operand_nodes(loss)
    if (
        loss.site is None
        or len(nodes) < 2
        or len(loss.operands) < 2
        or not loss.outputs
        or loss.outputs[0].shape
    ):
        return None
    before = "" if time == 0 else ":, "
    scores = _cut(loss.site.filename, nodes[0], loss.operands[0], axes=3, part=f"[{before}:-1]")
    labels = _cut(loss.site.filename, nodes[1], loss.operands[1], axes=2, part=f"[{before}1:]")
    return diff_of(scores, labels)


def _cut(filename: str, node: ast.expr, value: Value, *, axes: int, part: str) -> Edit | None:
    """Slice the tensor before it is flattened, while it still has its sample and time axes."""
    text = _after(filename, node, value, axes, part)
    return replace_node(filename, node, text) if text is not None else None


def _after(filename: str, node: ast.expr, value: Value, axes: int, part: str) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=args, keywords=keywords) if (
            value.call is not None and value.call.name == name and value.call.operands
        ):
            if name not in KEEPS_PLACES and not (
                name in ("view", "reshape") and args and _is_rest(args[0])
            ):
                return None
            text = _after(filename, inner, value.call.operands[0], axes, part)
            given = ", ".join(text_of(filename, each) for each in (*args, *keywords))
            # The slice is not contiguous.
            return (
                f"{text}.{'reshape' if name == 'view' else name}({given})"
                if text is not None
                else None
            )
        case ast.Name() | ast.Attribute() | ast.Subscript():
            return f"{text_of(filename, node)}{part}" if len(value.shape) == axes else None
    return None


def _is_rest(node: ast.expr) -> bool:
    return (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and ast.unparse(node.operand) == "1"
    )
