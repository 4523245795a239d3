"""The operands of a call as written in the source."""

from __future__ import annotations

import ast

MODULES = ("torch", "F", "nn.functional", "torch.nn.functional", "functional")


def operands_of(node: ast.AST | None) -> list[ast.expr]:
    """Return the operand expressions of an operator or a call, in argument order.

    The object of a method call comes first.
    """
    match node:
        case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
            return [left, right]
        case ast.Call(func=ast.Attribute(value=subject), args=args) if (
            ast.unparse(subject) not in MODULES
        ):
            return [subject, *args]
        case ast.Call(args=args):
            return [*args]
    return []
