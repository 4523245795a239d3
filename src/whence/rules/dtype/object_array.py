"""An object, string or ragged array cannot become a tensor.

What happened
    torch.tensor, as_tensor or from_numpy received data that is not a rectangular block of numbers:
    a column that contains a string, a list of lists of different lengths.
Why it matters
    PyTorch's message lists the dtypes it supports; the finding names the element or row.
How it is detected
    The data are searched for the first element that is not a number, or the first row of another
    length.
How to fix it
    Clean or encode that column; pad ragged rows, or keep them as a list.
When it stays silent
    Arrays of numbers.
Cost
    None until a call raises.
"""

from __future__ import annotations

from typing import Any

from whence.finding import Finding, Operand
from whence.lineage.following.trace import SourceTrace
from whence.lineage.grounds import ground_of
from whence.lineage.looking import is_array
from whence.lineage.properties import IsObject
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding
from whence.tape.failed import FailedCall

MAKERS = frozenset(
    {
        "tensor",
        "as_tensor",
        "from_numpy",
        "asarray",
        "Tensor",
        "FloatTensor",
        "LongTensor",
        "_legacy_new",
    }
)


@rule("dtype/object-array")
def object_array(failed: FailedCall) -> Finding | None:
    given = failed.args[0] if failed.name in MAKERS and failed.args else None
    trouble = _trouble(given)
    if trouble is None:
        return None
    node = failed.site.node() if failed.site is not None else None
    found = (
        SourceTrace(IsObject(), failed.frames).follow(
            node, ground_of(failed.call.stack, failed.frames)
        )
        if node
        else None
    )
    return failure_finding(
        failed,
        "dtype/object-array",
        verdict=f"{failed.name} got {trouble}",
        spot=found.spot if found is not None else None,
        chain=found.hops if found is not None else (),
        why="A tensor is a rectangular block of numbers with one dtype.",
        fix="Clean or encode the element, or pad the rows, where the data are created; a cast does "
        "not help.",
        operands=(Operand("given", describe(given)),),
    )


def _trouble(given: Any) -> str | None:
    """What prevents the data from becoming a tensor, with its position."""
    if is_array(given):
        if given.dtype.kind not in "OSU":
            return None
        flat = given.reshape(-1)
        for number, element in enumerate(flat[:1_000_000]):
            if (
                not isinstance(element, int | float) and type(element).__module__ != "numpy"
            ) or isinstance(element, str):
                row = number // (given.shape[-1] if given.ndim > 1 else 1)
                column = f", column {number % given.shape[-1]}" if given.ndim > 1 else ""
                return f"an array of {given.dtype} with {element!r} in row {row}{column}"
        return f"an array of dtype {given.dtype}"
    if isinstance(given, list | tuple):
        return _trouble_in_list(given)
    return None


def _trouble_in_list(given: list[Any] | tuple[Any, ...]) -> str | None:
    lengths = [len(row) if isinstance(row, list | tuple) else None for row in given]
    for number, (row, length) in enumerate(zip(given, lengths, strict=True)):
        if length != lengths[0]:
            return f"rows of different lengths: row 0 has {lengths[0]}, row {number} has {length}"
        if isinstance(row, str | type(None)):
            return f"a list with {row!r} at position {number}"
        if isinstance(row, list | tuple) and (inside := _trouble_in_list(row)) is not None:
            return f"{inside} (row {number})"
    return None
