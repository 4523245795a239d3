"""An object, string or ragged array was to become a tensor.

What happened
    torch.tensor, as_tensor or from_numpy was given something that is not a block of numbers: a column with a string in
    it, a list of lists of different length.
Why it matters
    The message lists types that torch knows; what helps is the row that is not a number.
How it is detected
    What was given is looked through for the first element that is no number, or the first row of another length.
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
from whence.rules.telling import describe, tell
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
    return tell(
        failed,
        "dtype/object-array",
        verdict=f"{failed.name} was given {trouble}",
        spot=found.spot if found is not None else None,
        chain=found.hops if found is not None else (),
        why="A tensor is one block of numbers of one type; this is not.",
        fix="Clean or encode the element, or pad the rows, where the data are made; a cast cannot mend it.",
        operands=(Operand("given", describe(given)),),
    )


def _trouble(given: Any) -> str | None:
    """What keeps it from being a block of numbers, with its place."""
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
        return f"an array of type {given.dtype}"
    if isinstance(given, list | tuple):
        return _trouble_in_list(given)
    return None


def _trouble_in_list(given: list[Any] | tuple[Any, ...]) -> str | None:
    lengths = [len(row) if isinstance(row, list | tuple) else None for row in given]
    for number, (row, length) in enumerate(zip(given, lengths, strict=True)):
        if length != lengths[0]:
            return f"rows of different length: row 0 has {lengths[0]}, row {number} has {length}"
        if isinstance(row, str | type(None)):
            return f"a list with {row!r} at position {number}"
        if isinstance(row, list | tuple) and (inside := _trouble_in_list(row)) is not None:
            return f"{inside} (row {number})"
    return None
