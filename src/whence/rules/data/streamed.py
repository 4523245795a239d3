"""A record that the program's reader cannot parse, in a stream that a loop trains on."""

from __future__ import annotations

import ast
import inspect
from types import FrameType
from typing import Any

import torch

from whence.finding import Confidence, Finding, Operand
from whence.lineage.datasets.samples import file_of
from whence.lineage.looking import is_array
from whence.lineage.trail import Birth, Trail
from whence.rules.data.stacked import stacked
from whence.rules.telling import describe, failure_finding
from whence.source.sites import Site, sites_in, variables
from whence.source.spots import Spot
from whence.source.text import statement_at
from whence.tape.failed import FailedCall

# Mistakes of the code or the machine, which any record would raise.
NOT_OF_DATA = (NameError, ImportError, NotImplementedError, RecursionError, MemoryError)
SHOWN = 3


def broken_record(failed: FailedCall) -> Finding | None:
    """The program's generator raises after its loop has computed with earlier records."""
    exception = failed.exception
    if (
        isinstance(exception, NOT_OF_DATA)
        or isinstance(exception.__cause__, StopIteration)
        or _is_of_tensors(failed)
    ):
        return None
    sites = sites_in(exception.__traceback__)
    feeding = _feeding(sites, failed)
    if feeding is None:
        return None
    loop, given = feeding
    readers = [
        frame
        for frame in failed.frames
        if any(frame.f_code is each.f_code for each in sites[:given])
    ]
    path = file_of([(frame, None) for frame in readers])
    where = f" The reader reads {path}." if path else ""
    return failure_finding(
        failed,
        "data/corrupt-sample",
        verdict=f"a later record of the stream raised {type(exception).__name__}",
        trail=Trail(
            Birth.SAMPLE,
            Spot.of_site(sites[0]),
            phase="data",
            hops=(loop.hop("this loop reads the records"),),
        ),
        why="This loop has already computed with earlier records from the same reader, so this "
        "record probably differs from them." + where,
        fix="Inspect this record. Fix it, or skip invalid records in the reader: a second header, "
        "an empty or truncated line.",
        confidence=Confidence.LIKELY,
        operands=shown(readers),
    )


def _is_of_tensors(failed: FailedCall) -> bool:
    """Whether the failure is about tensors or arrays, which other rules report."""
    operands = [*failed.args, *failed.kwargs.values()]
    inside = [one for each in operands if isinstance(each, list | tuple) for one in each]
    return bool(stacked(failed)) or any(
        isinstance(each, torch.Tensor) or is_array(each) for each in (*operands, *inside)
    )


def _feeding(sites: list[Site], failed: FailedCall) -> tuple[Spot, int] | None:
    """The loop around the reader, and how many of the innermost functions are the reader's."""
    for given in range(1, len(sites)):
        inner, outer = sites[given - 1], sites[given]
        statement = statement_at(outer.filename, outer.f_lineno)
        if not inner.f_code.co_flags & inspect.CO_GENERATOR or not isinstance(statement, ast.For):
            continue
        if _is_in(outer, statement.iter) and _has_computed(outer, statement, failed):
            return Spot.of_node(outer.filename, statement.iter), given
    return None


def _is_in(site: Site, node: ast.expr) -> bool:
    return node.lineno <= site.f_lineno <= (node.end_lineno or node.lineno)


def _has_computed(site: Site, loop: ast.For, failed: FailedCall) -> bool:
    first, last = loop.body[0].lineno, loop.end_lineno or loop.lineno
    return any(
        each.f_code is site.f_code and first <= each.f_lineno <= last
        for call in failed.tape.calls
        for each in call.stack
    )


def shown(frames: list[FrameType]) -> tuple[Operand, ...]:
    """The reader's local variables."""
    found: dict[str, Any] = {}
    for frame in frames:
        for name, thing in variables(frame).items():
            if isinstance(
                thing, str | bytes | int | float | list | tuple | dict
            ) and not name.startswith((".", "_")):
                found.setdefault(name, thing)
    return tuple(Operand(name, describe(thing)) for name, thing in list(found.items())[:SHOWN])
