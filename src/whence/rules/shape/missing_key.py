"""A dict that is asked for a name it does not have: a batch, the result of a model, a checkpoint.

It is told by the rule of wrong containers, whose documentation speaks of it.
"""

from __future__ import annotations

import ast
from difflib import get_close_matches
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.grounds import ground_of
from whence.rules.telling import tell
from whence.source.edits import diff_of, replace_node
from whence.source.sites import variables
from whence.tape.failed import FailedCall
from whence.tape.tape import flatten

ALIKE = 0.8
MOST_NAMES = 8


def missing_key(failed: FailedCall) -> Finding | None:
    """`holder[key]`, where what was meant is told by the other dicts in sight, and by names that are spelled nearly so."""
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
    others = _others_with(failed, holder, key)
    alike = get_close_matches(key, names, n=2, cutoff=ALIKE)
    name, filename = ast.unparse(node.value), failed.site.filename
    patch = None
    if len(others) == 1:
        patch = diff_of(replace_node(filename, node.value, others[0]))
    elif not others and len(alike) == 1 and isinstance(node.slice, ast.Constant):
        patch = diff_of(replace_node(filename, node.slice, repr(alike[0])))
    meant = f"{others[0]} has one" if others else f"it has {alike[0]!r}" if alike else ""
    return tell(
        failed,
        "shape/wrong-container",
        verdict=f"{name} has no {key!r}" + (f"; {meant}" if meant else ""),
        why=f"It has {_some(names)}.",
        fix=f"Take it from {others[0]}, if that is meant."
        if others
        else f"Ask for {alike[0]!r}, if that is meant."
        if alike
        else "Ask for a name that it has, or put this one in where it is made.",
        patch=patch,
        operands=(Operand(name, f"dict of {len(holder)}"),),
    )


def _others_with(failed: FailedCall, holder: Any, key: str) -> list[str]:
    """The program's variables in sight that are dicts with that name in them."""
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


def _some(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:MOST_NAMES]))
    return (shown or "no names at all") + (
        f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    )
