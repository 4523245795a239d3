"""The expressions in the source that a call's operands were written as."""

from __future__ import annotations

import ast

from whence.tape.tape import Call


def operand_nodes(call: Call) -> tuple[ast.expr, ...]:
    """The operands of a call as they stand in the source, in order; empty where that cannot be told."""
    node = call.site.node() if call.site is not None else None
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return sides[::-1] if call.name.startswith("__r") else sides
    if isinstance(node, ast.Compare) and len(node.comparators) == 1:
        return node.left, node.comparators[0]
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and len(node.args) < len(call.operands):
            return node.func.value, *node.args
        return tuple(node.args)
    return ()
