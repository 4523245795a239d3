"""The source expressions of a call's operands."""

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
    """The operands of a call as written, in argument order; empty if that is unknown."""
    node = call.site.node() if call.site is not None else None
    if isinstance(node, ast.Call) and not (_is_method(call) and is_written(call)):
        # The prefix is a module or a layer: `F.log(x)`, `self.criterion(x, y)`.
        return [*node.args]
    nodes = operands_of(node)
    return nodes[::-1] if call.name.startswith("__r") else nodes


def operands_of_study(call: Call, values: Iterable[Value], study: Study) -> tuple[Operand, ...]:
    """Some operands of a call under their source names, with a description."""
    nodes = operand_nodes(call)
    found = []
    for value in values:
        position = call.operands.index(value)
        name = ast.unparse(nodes[position]) if position < len(nodes) else f"operand {position + 1}"
        content = study.content(value)
        found.append(Operand(name, describe(content if content is not None else value)))
    return tuple(found)


def is_written(call: Call) -> bool:
    """Whether the source names the operation itself, not a layer or library function around it."""
    match call.site.node() if call.site is not None else None:
        case ast.Call(func=func):
            return last_name(func).strip("_") == call.name.strip("_")
        case ast.Attribute(attr=attr):
            # A property may compute, as that of a parametrized weight does.
            return attr == call.name.partition(".")[0]
        case ast.Subscript():
            return call.name in ("__getitem__", "__setitem__")
        case ast.For() | ast.AsyncFor():
            return False
    return True


def _is_method(call: Call) -> bool:
    return str(getattr(call.func, "__qualname__", "")).partition(".")[0] in TENSORS
