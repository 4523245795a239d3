"""Operands by the names that the program gives them."""

from __future__ import annotations

import ast

from whence.tape.tape import Call, Value

MODULES = ("torch", "F", "nn.functional", "torch.nn.functional", "functional")


def operand_name(call: Call, value: Value) -> str:
    """An operand as it stands in the source, else by its place."""
    node = call.site.node() if call.site is not None else None
    texts: list[str] = []
    if isinstance(node, ast.BinOp):
        texts = [ast.unparse(node.left), ast.unparse(node.right)]
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) not in MODULES:
            texts.append(ast.unparse(node.func.value))
        texts += [ast.unparse(each) for each in node.args]
    place = call.operands.index(value)
    return texts[place] if place < len(texts) else f"operand {place + 1}"
