"""A key that a dict does not have: a batch, a model's output, a checkpoint.

Reported by shape/wrong-container, which documents it.
"""

from __future__ import annotations

import ast
from difflib import get_close_matches
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.grounds import ground_of
from whence.rules.telling import failure_finding
from whence.source.edits import diff_of, replace_node
from whence.source.sites import variables
from whence.tape.failed import FailedCall
from whence.tape.tape import flatten

ALIKE = 0.8
MOST_NAMES = 8


def missing_key(failed: FailedCall) -> Finding | None:
    """`holder[key]`; other dicts in scope and similar keys suggest the one that was meant."""
    if (
        failed.name != "getitem"
        or len(failed.args) != 2
        or not isinstance(failed.exception, KeyError)
    ):
        return None
    holder, key = failed.args
    if not isinstance(holder, dict) or not isinstance(key, str) or dict.__contains__(holder, key):
        return None
    if not any(isinstance(each, torch.Tensor) for each in flatten(dict(holder))):
        return None
    node = failed.site.node() if failed.site is not None else None
    if not isinstance(node, ast.Subscript) or failed.site is None:
        return None
    names = [each for each in dict.keys(holder) if isinstance(each, str)]
    others = _dicts_with(failed, holder, key)
    alike = get_close_matches(key, names, n=2, cutoff=ALIKE)
    name, filename = ast.unparse(node.value), failed.site.filename
    patch = None
    if len(others) == 1:
        patch = diff_of(replace_node(filename, node.value, others[0]))
    elif not others and len(alike) == 1 and isinstance(node.slice, ast.Constant):
        patch = diff_of(replace_node(filename, node.slice, repr(alike[0])))
    meant = f"{others[0]} has it" if others else f"did you mean {alike[0]!r}?" if alike else ""
    return failure_finding(
        failed,
        "shape/wrong-container",
        verdict=f"{name} has no key {key!r}" + (f"; {meant}" if meant else ""),
        why=f"The keys are {_listed(names)}.",
        fix=f"Take {key!r} from {others[0]}, if that dict is meant."
        if others
        else f"Use {alike[0]!r}, if that key is meant."
        if alike
        else f"Use an existing key, or add {key!r} where the dict is created.",
        patch=patch,
        operands=(Operand(name, f"dict of {len(holder)}"),),
    )


def _dicts_with(failed: FailedCall, holder: Any, key: str) -> list[str]:
    """The program's variables in scope that are dicts with this key."""
    ground = ground_of(failed.call.stack, failed.frames)
    if ground is None or ground.frame is None:
        return []
    seen = {**ground.frame.f_globals, **variables(ground.frame)}
    return [
        name
        for name, each in seen.items()
        if isinstance(each, dict)
        and each is not holder
        and not name.startswith("_")
        and dict.__contains__(each, key)
    ]


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_NAMES]))
    return (shown or "not strings") + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )
