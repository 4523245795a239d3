"""The expressions in the source that a call's operands were written as."""

from __future__ import annotations

import ast

from whence.source.operands import operands_of
from whence.tape.tape import Call


def operand_nodes(call: Call) -> list[ast.expr]:
    """The operands of a call as they stand in the source, in the order of its arguments; empty where that cannot be told."""
    nodes = operands_of(call.site.node() if call.site is not None else None)
    return nodes[::-1] if call.name.startswith("__r") else nodes
