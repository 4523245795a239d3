"""Samples that cannot be created, or that differ from the others."""

from __future__ import annotations

import ast
import operator
from collections import Counter
from dataclasses import replace
from types import FrameType
from typing import Any, SupportsIndex

from whence.finding import Finding, Operand, Sample
from whence.lineage.datasets.departure import Oddity, oddity
from whence.lineage.datasets.samples import Callers, file_of
from whence.lineage.trail import Birth, Trail
from whence.rules.data.streamed import broken_record
from whence.rules.rule import rule
from whence.rules.telling import failure_finding, shape_text
from whence.source.sites import Site, frames_in, is_library, variables
from whence.source.spots import Spot
from whence.source.text import parent_of, span_of, statement_at
from whence.tape.batches import leaves_of
from whence.tape.failed import FailedCall, Fetching, Stage


def named(fetching: Fetching, position: int, leaf: str | None = None) -> Sample:
    # A sample of a stream has a position, which cannot be used as an index.
    index = fetching.indices[position] if not fetching.info.is_iterable else None
    made = fetching.returns[position] if position < len(fetching.returns) else []
    return Sample(
        batch=fetching.info.batches,
        position=position,
        dataset_index=operator.index(index) if isinstance(index, SupportsIndex) else None,
        leaf=leaf,
        path=file_of(made),
    )


def sample_text(fetching: Fetching, position: int) -> str:
    """A sample by its dataset index, or by its position in a stream."""
    number = fetching.indices[position]
    if not fetching.info.is_iterable:
        return f"sample {number}"
    return (
        f"record {number}"
        if fetching.worker is None
        else f"record {number} of worker {fetching.worker}"
    )


def redrawn_text(fetching: Fetching) -> str:
    return (
        " (It was fetched again with other random numbers and may differ from the failed one.)"
        if fetching.redrawn
        else ""
    )


@rule("data/corrupt-sample")
def corrupt_sample(failed: FailedCall) -> Finding | None:
    """A sample is None, unreadable or raises.

    What happened
        The dataset raised for one index, returned None for it, or returned a sample without the
        parts that the others have. Or a stream or a generator that the loop reads from raised.
    Why it matters
        The loader's message names the type it found, not the sample; in a worker, the program's
        line is hidden in a long text.
    How it is detected
        The batch is fetched again in a child process, sample by sample: the first sample that
        raises, is None, or differs from the others and makes the collate function fail. Without a
        loader: an exception from a generator after its loop has computed with earlier items.
    How to fix it
        Fix or skip that sample; in __getitem__, let a broken file raise rather than return None.
    When it stays silent
        Datasets that return None together with a collate_fn that drops it.
    Cost
        None until a fetch fails; then one batch is fetched again.
    """
    fetching = failed.fetching
    if fetching is None:
        return broken_record(failed)
    if fetching.lost or fetching.raised is not None:
        return None
    if fetching.failed_index is not None:
        position = len(fetching.samples)
        raised = f"{sample_text(fetching, position)} raised {type(failed.exception).__name__}"
        odd = _odd_at(failed, fetching)
        return (
            _report_sample(failed, position, raised, None)
            if odd is None
            else _report_odd(failed, position, raised, odd)
        )
    for position, sample in enumerate(fetching.samples):
        if sample is None or any(leaf is None for _, leaf in leaves_of(sample)):
            spot, forgets = _returned_none(fetching, position)
            verdict = f"{sample_text(fetching, position)} is None"
            if forgets:
                verdict = f"{verdict}: {forgets} ends without a return"
            return _report_sample(failed, position, verdict, spot, fix=RETURN if forgets else SKIP)
    return _without_a_part(failed, fetching)


SKIP = (
    "Fix this sample, or remove it from the dataset. Returning None only moves the failure to the "
    "collate function."
)
ALIKE = (
    "Make this sample like the others before this line (convert, resize, pad), or remove it from "
    "the dataset."
)
RETURN = "Return the value that this function computes."


def _report_sample(
    failed: FailedCall, position: int, verdict: str, spot: Spot | None, fix: str = SKIP
) -> Finding | None:
    fetching = failed.fetching
    assert fetching is not None
    sample = named(fetching, position)
    where = f" The sample reads {sample.path}." if sample.path else ""
    trail = Trail(
        Birth.SAMPLE,
        spot or (Spot.of_site(failed.site) if failed.site is not None else None),
        phase="data",
        sample=sample,
    )
    which = f" (dataset index {sample.dataset_index})" if sample.dataset_index is not None else ""
    return failure_finding(
        failed,
        "data/corrupt-sample",
        verdict=verdict,
        trail=trail,
        why="The batch was fetched again, sample by sample; position "
        f"{position} in the batch{which} is the first that fails or differs.{where}"
        + redrawn_text(fetching),
        fix=fix,
        operands=(
            Operand("raised", f"{type(failed.exception).__name__}: {failed.exception}"[:160]),
        ),
        counterfactual="fetched again alone, the sample fails in the same way"
        if fetching.failed_index is not None
        else None,
    )


def _odd_at(failed: FailedCall, fetching: Fetching) -> Oddity | None:
    """The value at the line that raised, if its size differs from the earlier samples'."""
    own = (
        each
        for each in frames_in(failed.exception.__traceback__)
        if not is_library(each.f_code.co_filename)
    )
    frame, made = next(own, None), len(fetching.samples)
    if frame is None or failed.site is None or made >= len(fetching.courses):
        return None
    return oddity(
        fetching.courses[made], fetching.courses[:made], frame.f_code, failed.site.f_lineno
    )


def _report_odd(failed: FailedCall, position: int, raised: str, odd: Oddity) -> Finding | None:
    finding = _report_sample(
        failed,
        position,
        f"{raised}: {odd.name} is {shape_text(odd.size)}, in other samples {shape_text(odd.usual)}",
        None,
        fix=ALIKE,
    )
    if finding is None or odd.since is None or odd.since.line == finding.origin.line:
        return finding
    return replace(finding, chain=(*finding.chain, odd.since.hop("the size first differs here")))


def _without_a_part(failed: FailedCall, fetching: Fetching) -> Finding | None:
    """Collating failed while it held a sample without the parts that the others have."""
    position = sample_being_collated(failed, fetching)
    keys = [_keys(each) for each in fetching.samples]
    usual, times = Counter(keys).most_common(1)[0] if keys else (None, 0)
    if (
        position is None
        or usual is None
        or keys[position] in (usual, None)
        or 2 * times <= len(keys)
    ):
        return None
    missing = [each for each in usual if each not in (keys[position] or ())]
    has = f"has no {missing[0]!r}" if missing else f"has {len(keys[position] or ())} parts"
    made = fetching.returns[position]
    return _report_sample(
        failed,
        position,
        f"{sample_text(fetching, position)} {has}; the others have "
        f"{'it' if missing else len(usual)}",
        Spot.of_site(Site.of(made[-1][0])) if made else None,
        fix="Add the missing part to this sample, or make the collate function accept it.",
    )


def sample_being_collated(failed: FailedCall, fetching: Fetching) -> int | None:
    """The sample that the collate function was processing when it failed."""
    if fetching.stage is not Stage.COLLATING:
        return None
    for frame in frames_in(failed.exception.__traceback__):
        held = {id(each) for each in variables(frame).values()}
        found = [number for number, sample in enumerate(fetching.samples) if id(sample) in held]
        if found:
            return found[0] if len(found) == 1 else None
    return None


def _keys(sample: Any) -> tuple[Any, ...] | None:
    """The keys of a sample's parts, or their positions."""
    if isinstance(sample, dict):
        return tuple(sorted(sample, key=str))
    return tuple(range(len(sample))) if isinstance(sample, tuple) else None


def _returned_none(fetching: Fetching, position: int) -> tuple[Spot | None, str]:
    """The return that gave None, past functions that only pass it on.

    Also the name of the function, if it ends without a return.
    """
    made = fetching.returns[position]
    frame, path = next(
        (
            (each, path)
            for each, returned in reversed(made)
            if (path := _path_to_none(returned)) is not None
        ),
        (None, ()),
    )
    if frame is None:
        return None, ""
    while (inner := _returning_frame(frame, path, made, fetching.callers)) is not None:
        frame, path = inner, ()
    site = Site.of(frame)
    statement = site.statement()
    if statement is None:
        return Spot.of_site(site), ""
    forgets = not isinstance(statement, ast.Return) and not site.function.startswith("<")
    return Spot(site.filename, span_of(statement), site.function), site.function if forgets else ""


def _returning_frame(
    frame: FrameType, path: tuple[Any, ...], made: list[tuple[FrameType, Any]], callers: Callers
) -> FrameType | None:
    """The function that returned the None which this frame passes on at `path`."""
    statement = Site.of(frame).statement()
    part = statement.value if isinstance(statement, ast.Return) else None
    while path and isinstance(part, ast.Tuple | ast.List | ast.Dict):
        parts = dict(enumerate(part.elts)) if not isinstance(part, ast.Dict) else _keyed(part)
        part, path = parts.get(path[0]), path[1:]
    if isinstance(statement, ast.Return) and (part is None or isinstance(part, ast.Constant)):
        part = _none_check(statement)
    if not isinstance(part, ast.Name | ast.Call):
        return None
    nothing = [inner for inner, returned in made if returned is None and inner in callers]
    given = [
        inner
        for inner in nothing
        if callers[inner][0] is frame and _is_given_by(part, callers[inner][1], frame)
    ]
    return given[-1] if given else None


def _none_check(statement: ast.Return) -> ast.expr | None:
    """`if image is None: return None`: the name whose None is passed on."""
    match parent_of(statement):
        case (
            ast.If(
                test=ast.Compare(left=name, ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=body,
            )
            | ast.If(test=ast.UnaryOp(op=ast.Not(), operand=name), body=body)
        ) if statement in body:
            return name
    return None


def _is_given_by(part: ast.Name | ast.Call, line: int, frame: FrameType) -> bool:
    """Whether an expression is the call in that line, or a name assigned from it."""
    if isinstance(part, ast.Call):
        return part.lineno <= line <= (part.end_lineno or part.lineno)
    statement = statement_at(frame.f_code.co_filename, line)
    if not isinstance(statement, ast.Assign) or not isinstance(
        statement.value, ast.Call | ast.IfExp
    ):
        return False
    return any(isinstance(each, ast.Name) and each.id == part.id for each in statement.targets)


def _keyed(node: ast.Dict) -> dict[Any, ast.expr]:
    pairs = zip(node.keys, node.values, strict=True)
    return {key.value: value for key, value in pairs if isinstance(key, ast.Constant)}


def _path_to_none(thing: Any) -> tuple[Any, ...] | None:
    """The path to the first None in a tree of tuples, lists and dicts."""
    if thing is None:
        return ()
    parts = (
        thing.items()
        if isinstance(thing, dict)
        else enumerate(thing)
        if isinstance(thing, tuple | list)
        else ()
    )
    for key, each in parts:
        below = _path_to_none(each)
        if below is not None:
            return (key, *below)
    return None
