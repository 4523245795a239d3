"""Operands as they stand in the source."""

from __future__ import annotations

import ast

from whence.rules.source_operands import is_written, operand_nodes
from whence.tape.replay import is_weight
from whence.tape.scopes import ModuleBook
from whence.tape.tape import Call, Value


def operand_name(call: Call, value: Value, modules: ModuleBook) -> str:
    """An operand as it stands in the source, else by its place; a weight that a layer has used by its name."""
    if (
        value.tensor is not None
        and is_weight(value)
        and not is_written(call)
        and (name := modules.name_of(value.tensor))
    ):
        return name
    nodes, place = operand_nodes(call), call.operands.index(value)
    return ast.unparse(nodes[place]) if place < len(nodes) else f"operand {place + 1}"
