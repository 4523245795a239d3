"""The expressions in the source that a call's operands were written as."""

from __future__ import annotations

import ast

from whence.source.operands import operands_of
from whence.source.text import last_name
from whence.tape.tape import Call

TENSORS = ("Tensor", "TensorBase", "_TensorBase")


def operand_nodes(call: Call) -> list[ast.expr]:
    """The operands of a call as they stand in the source, in the order of its arguments; empty where that cannot be told."""
    node = call.site.node() if call.site is not None else None
    if isinstance(node, ast.Call) and not (_is_method(call) and is_written(call)):
        # What stands before the point is a module, or a layer that makes the call: `F.log(x)`, `self.criterion(x, y)`.
        return [*node.args]
    nodes = operands_of(node)
    return nodes[::-1] if call.name.startswith("__r") else nodes


def is_written(call: Call) -> bool:
    """Whether the operation itself stands in the source, and not a layer or a function of a library that makes use of it."""
    node = call.site.node() if call.site is not None else None
    return not isinstance(node, ast.Call) or last_name(node.func).strip("_") == call.name.strip("_")


def _is_method(call: Call) -> bool:
    return str(getattr(call.func, "__qualname__", "")).partition(".")[0] in TENSORS
