"""Names of operands."""

from __future__ import annotations

import ast

from whence.rules.source_operands import is_written, operand_nodes
from whence.tape.replay import is_weight
from whence.tape.scopes import ModuleBook
from whence.tape.tape import Call, Value


def operand_name(call: Call, value: Value, modules: ModuleBook) -> str:
    """The operand's source text, else its position; the parameter name if a layer uses it."""
    if (
        value.tensor is not None
        and is_weight(value)
        and not is_written(call)
        and (name := modules.name_of(value.tensor))
    ):
        return name
    nodes, place = operand_nodes(call), call.operands.index(value)
    return ast.unparse(nodes[place]) if place < len(nodes) else f"operand {place + 1}"
