"""Samples of different sizes that a program stacks itself, without a loader."""

from __future__ import annotations

import ast
from collections import Counter
from itertools import takewhile
from typing import Any

import torch

from whence.finding import Confidence, Finding, Operand
from whence.lineage.looking import is_array
from whence.lineage.loops.elements import ElementTrace
from whence.lineage.loops.feeding import place_of_site
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.sites import frames_in, is_library, variables
from whence.source.text import last_name
from whence.tape.failed import FailedCall

STACKS = ("stack", "vstack", "hstack", "column_stack", "dstack")
ENOUGH = 4


def ragged_stack(failed: FailedCall) -> Finding | None:
    """Most stacked elements have one shape and a few another, so they are samples."""
    parts = stacked(failed)
    shapes = [tuple(each.shape) for each in parts]
    if len(shapes) < ENOUGH or failed.call.phase == "forward":
        return None
    usual, times = Counter(shapes).most_common(1)[0]
    if times == len(shapes) or 2 * times <= len(shapes):
        return None
    odd = next(number for number, shape in enumerate(shapes) if shape != usual)
    node = failed.site.node() if failed.site is not None else None
    place = place_of_site(failed.call.stack)
    given = (
        node.args[0]
        if isinstance(node, ast.Call) and node.args and last_name(node.func) in STACKS
        else None
    )
    spot = (
        ElementTrace().sample(given, place, 1) if given is not None and place is not None else None
    )
    if spot is None and any(isinstance(each, torch.Tensor) for each in parts):
        # The tape shows how tensors got their shape.
        return None
    return failure_finding(
        failed,
        "data/ragged-samples",
        verdict=f"stacked element {odd} is {shape_text(shapes[odd])}, most are {shape_text(usual)}",
        spot=spot,
        why=f"All samples of a batch need one shape; {len(shapes) - times} of {len(shapes)} have "
        "another.",
        fix="Bring all samples to one size where they are created (pad, resize, crop), or drop "
        "those that are too short.",
        confidence=Confidence.LIKELY,
        operands=(
            Operand(f"element {odd}", describe(parts[odd])),
            Operand("most", shape_text(usual)),
        ),
    )


def stacked(failed: FailedCall) -> list[Any]:
    """The arguments that a PyTorch or NumPy call failed to stack."""
    if failed.name in STACKS and failed.args and isinstance(failed.args[0], list | tuple):
        given: Any = failed.args[0]
    else:
        frames = frames_in(failed.exception.__traceback__)
        inside = list(takewhile(lambda each: is_library(each.f_code.co_filename), frames))
        # NumPy's own function, called from the program: its arguments are in its variables.
        last = inside[-1] if inside else None
        if last is None or last.f_code.co_name not in STACKS:
            return []
        given = variables(last).get(last.f_code.co_varnames[0])
    if not isinstance(given, list | tuple):
        return []
    parts = list(given)
    return parts if all(isinstance(each, torch.Tensor) or is_array(each) for each in parts) else []
