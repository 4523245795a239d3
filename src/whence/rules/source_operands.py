"""The expressions in the source that a call's operands were written as."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from whence.finding import Operand
from whence.ledgers.study import Study
from whence.rules.telling import describe
from whence.source.operands import operands_of
from whence.source.text import last_name
from whence.tape.tape import Call, Value

TENSORS = ("Tensor", "TensorBase", "_TensorBase")


def operand_nodes(call: Call) -> list[ast.expr]:
    """The operands of a call as they stand in the source, in the order of its arguments; empty where that cannot be told."""
    node = call.site.node() if call.site is not None else None
    if isinstance(node, ast.Call) and not (_is_method(call) and is_written(call)):
        # What stands before the point is a module, or a layer that makes the call: `F.log(x)`, `self.criterion(x, y)`.
        return [*node.args]
    nodes = operands_of(node)
    return nodes[::-1] if call.name.startswith("__r") else nodes


def operands_of_study(call: Call, values: Iterable[Value], study: Study) -> tuple[Operand, ...]:
    """Some operands of a call as the source names them, with what they were."""
    nodes = operand_nodes(call)
    found = []
    for value in values:
        position = call.operands.index(value)
        name = ast.unparse(nodes[position]) if position < len(nodes) else f"operand {position + 1}"
        content = study.content(value)
        found.append(Operand(name, describe(content if content is not None else value)))
    return tuple(found)


def is_written(call: Call) -> bool:
    """Whether the operation itself stands in the source, and not a layer or a function of a library that makes use of it."""
    match call.site.node() if call.site is not None else None:
        case ast.Call(func=func):
            return last_name(func).strip("_") == call.name.strip("_")
        case ast.Attribute(attr=attr):
            # A property may compute: that of a parametrised weight does.
            return attr == call.name.partition(".")[0]
        case ast.Subscript():
            return call.name in ("__getitem__", "__setitem__")
        case ast.For() | ast.AsyncFor():
            return False
    return True


def _is_method(call: Call) -> bool:
    return str(getattr(call.func, "__qualname__", "")).partition(".")[0] in TENSORS
