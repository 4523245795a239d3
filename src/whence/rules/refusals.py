"""PyTorch methods written in Python that raise by themselves, not in a recorded call."""

from __future__ import annotations

import ast
from typing import Any

from whence.source.sites import frames_in, is_library, variables
from whence.tape.failed import FailedCall


def refusing(failed: FailedCall, kind: type, *methods: str) -> dict[str, Any] | None:
    """The variables of the method that raised, if it is one of these on an object of this kind."""
    frames = frames_in(failed.exception.__traceback__)
    if (
        not frames
        or frames[0].f_code.co_name not in methods
        or not is_library(frames[0].f_code.co_filename)
    ):
        return None
    names = variables(frames[0])
    return names if isinstance(names.get("self"), kind) else None


def call_of(failed: FailedCall, method: str) -> ast.Call | None:
    """The call of that method in the program's own line."""
    node = failed.site.node() if failed.site is not None else None
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == method
    ):
        return node
    return None
