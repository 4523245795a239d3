"""An optimizer that received no parameters but generators in a list, a module or names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding, Operand
from whence.rules.refusals import refusing
from whence.rules.telling import describe, failure_finding
from whence.source.edits import Edit, diff_of, in_parentheses, insert_before, replace_node
from whence.tape.failed import FailedCall


def no_tensors(failed: FailedCall) -> Finding | None:
    names = refusing(failed, Optimizer, "add_param_group", "__init__")
    if names is None or not isinstance(failed.exception, TypeError):
        return None
    group = names.get("param_group")
    given: Any = group.get("params") if isinstance(group, dict) else names.get("params")
    whole = not isinstance(given, list | tuple | set | dict)
    strange = [given] if whole else [each for each in given if not isinstance(each, torch.Tensor)]
    if not strange or isinstance(strange[0], dict) or (whole and isinstance(given, Iterator)):
        return None
    what, fix = _text(strange[0])
    return failure_finding(
        failed,
        "optimizer/no-parameters",
        verdict=f"the optimizer expects parameters, got {what}",
        why="The optimizer accepts a list of tensors, an iterator such as model.parameters(), or "
        "dicts with these under 'params'.",
        fix=fix,
        patch=_patch(failed, strange[0], whole),
        operands=(Operand("argument", describe(strange[0])),),
    )


def _text(thing: Any) -> tuple[str, str]:
    if isinstance(thing, nn.Module):
        return f"a module ({type(thing).__name__})", "Pass its parameters: model.parameters()."
    if isinstance(thing, torch.Tensor):
        return "a single tensor", "Put the tensor into a list: [tensor]."
    if isinstance(thing, Iterator):
        return (
            "a list of iterators",
            "Unpack the iterators into the list: [*a.parameters(), *b.parameters()].",
        )
    if isinstance(thing, str):
        return (
            f"names ({thing!r})",
            "Pass the parameters themselves: model.parameters(), or the .values() of a dict.",
        )
    return f"a {type(thing).__name__}", "Pass tensors that require grad."


def _patch(failed: FailedCall, thing: Any, whole: bool) -> str | None:
    """A diff, if the optimizer's own line contains the argument."""
    node = failed.site.node() if failed.site is not None else None
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if failed.site is None or given is None:
        return None
    filename = failed.site.filename
    edits: list[Edit] = []
    if (
        whole
        and isinstance(thing, nn.Module | torch.Tensor)
        and isinstance(given, ast.Name | ast.Attribute)
    ):
        text = in_parentheses(filename, given)
        edits = [
            replace_node(
                filename,
                given,
                f"{text}.parameters()" if isinstance(thing, nn.Module) else f"[{text}]",
            )
        ]
    elif isinstance(thing, Iterator) and isinstance(given, ast.List):
        edits = [
            insert_before(filename, each, "*") for each in given.elts if isinstance(each, ast.Call)
        ]
        edits = edits if len(edits) == len(given.elts) else []
    return diff_of(*edits)
