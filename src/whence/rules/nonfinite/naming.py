"""Operands as they stand in the source."""

from __future__ import annotations

import ast

from whence.tape.tape import Call, Value

MODULES = ("torch", "F", "nn.functional", "torch.nn.functional", "functional")


def operand_nodes(call: Call) -> list[ast.expr]:
    """The expressions that a call was given, in the order of its arguments."""
    node = call.site.node() if call.site is not None else None
    if isinstance(node, ast.BinOp):
        return [node.left, node.right]
    if isinstance(node, ast.Call):
        is_method = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in MODULES
        return [*([node.func.value] if is_method and isinstance(node.func, ast.Attribute) else []), *node.args]
    return []


def operand_name(call: Call, value: Value) -> str:
    """An operand as it stands in the source, else by its place."""
    nodes, place = operand_nodes(call), call.operands.index(value)
    return ast.unparse(nodes[place]) if place < len(nodes) else f"operand {place + 1}"
