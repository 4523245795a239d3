"""Operands as they stand in the source."""

from __future__ import annotations

import ast

from whence.rules.source_operands import operand_nodes
from whence.tape.tape import Call, Value


def operand_name(call: Call, value: Value) -> str:
    """An operand as it stands in the source, else by its place."""
    nodes, place = operand_nodes(call), call.operands.index(value)
    return ast.unparse(nodes[place]) if place < len(nodes) else f"operand {place + 1}"
