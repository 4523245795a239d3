"""Edits of the line that loads a state."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from whence.rules.checkpoint.fitting import Surplus
from whence.rules.refusals import call_of
from whence.source.blocks import (
    SCOPES,
    Stack,
    holds_at,
    is_known_before,
    is_run_before,
    names_in,
    target_of,
)
from whence.source.edits import (
    diff_of,
    diffs_of,
    give_by_name,
    in_parentheses,
    insert_after,
    replace_node,
)
from whence.source.signatures import is_called_once, one_more_parameter
from whence.source.sites import Site
from whence.source.statements import line_after
from whence.source.text import enclosing
from whence.tape.failed import FailedCall


def appended(failed: FailedCall, text: str) -> str | None:
    """`load_state_dict(checkpoint)` becomes `load_state_dict(checkpoint['model'])`."""
    call = call_of(failed, "load_state_dict")
    if call is None or not call.args or failed.site is None:
        return None
    filename, given = failed.site.filename, call.args[0]
    return diff_of(replace_node(filename, given, in_parentheses(filename, given) + text))


def into_part(failed: FailedCall, path: str) -> str | None:
    """`model.load_state_dict(...)` becomes `model.encoder.load_state_dict(...)`."""
    call = call_of(failed, "load_state_dict")
    receiver = (
        call.func.value if call is not None and isinstance(call.func, ast.Attribute) else None
    )
    if failed.site is None or not isinstance(receiver, ast.Name | ast.Attribute | ast.Subscript):
        return None
    return diff_of(insert_after(failed.site.filename, receiver, path))


def _rewritten(failed: FailedCall, key: str, condition: str = "") -> str | None:
    call = call_of(failed, "load_state_dict")
    if call is None or not call.args or failed.site is None:
        return None
    filename, given = failed.site.filename, call.args[0]
    text = in_parentheses(filename, given)
    return diff_of(
        replace_node(filename, given, f"{{{key}: v for k, v in {text}.items(){condition}}}")
    )


def stripped(failed: FailedCall, found: Surplus, others: bool) -> str | None:
    """Remove the extra piece from the keys, and drop the other keys."""
    piece = found.piece
    if not found.leads:
        return _rewritten(failed, f"k.replace({'.' + piece!r}, '.')")
    return _rewritten(
        failed, f"k.removeprefix({piece!r})", f" if k.startswith({piece!r})" if others else ""
    )


def new_name(failed: FailedCall, old: str, new: str) -> str | None:
    """Rename a layer in the state."""
    start = f"{old}."
    return _rewritten(
        failed, f"{new + '.'!r} + k.removeprefix({start!r}) if k.startswith({start!r}) else k"
    )


@dataclass(frozen=True, slots=True)
class Unloaded:
    """A part of a checkpoint, the variable it belongs to, and the statement that creates that."""

    key: str
    name: str
    made: ast.stmt | None


def also_loaded(read: Stack, loaded: Stack, parts: Sequence[Unloaded]) -> str | None:
    """Load more parts of a checkpoint: after the first load, or after their owner is built.

    `read` is the line that reads the file, `loaded` the line that loads the other part.
    """
    if not read or not loaded or not parts:
        return None
    return _loaded_here(read[0], loaded[0], parts) or _loaded_by_the_helper(read[0], loaded, parts)


def _loaded_by_the_helper(read: Site, way: Stack, parts: Sequence[Unloaded]) -> str | None:
    """Pass the owners of the parts to a function that reads and loads."""
    loaded, caller = way[0], way[1] if len(way) > 1 else None
    statement, call = loaded.statement(), caller.node() if caller is not None else None
    function = enclosing(statement, *SCOPES) if statement is not None else None
    checkpoint, called = target_of(read), caller.statement() if caller is not None else None
    if caller is None or called is None or statement is None or checkpoint is None:
        return None
    if (
        not isinstance(function, ast.FunctionDef)
        or not isinstance(call, ast.Call)
        or not is_called_once(function, call)
    ):
        return None
    variable, is_read = checkpoint
    given = [part.name.rpartition(".")[2] for part in parts]
    are_known = all(
        part.made is not None and holds_at(part.name, part.made, called) for part in parts
    )
    if (
        not are_known
        or not holds_at(variable, is_read, statement)
        or set(given) & names_in(function)
    ):
        return None
    texts = [
        f'{name}.load_state_dict({variable}["{part.key}"])'
        for name, part in zip(given, parts, strict=True)
    ]
    return diffs_of(
        one_more_parameter(loaded.filename, function, ", ".join(given)),
        line_after(loaded.filename, statement, *texts),
        *(
            give_by_name(caller.filename, call, name, part.name)
            for name, part in zip(given, parts, strict=True)
        ),
    )


def _loaded_here(read: Site, loaded: Site, parts: Sequence[Unloaded]) -> str | None:
    first, checkpoint = loaded.statement(), target_of(read)
    if first is None or checkpoint is None:
        return None
    variable, is_read = checkpoint
    lines: dict[ast.stmt, list[str]] = {}
    for part in parts:
        place = _place(part, first)
        if place is None or not holds_at(variable, is_read, place):
            return None
        lines.setdefault(place, []).append(f'{part.name}.load_state_dict({variable}["{part.key}"])')
    return diff_of(*(line_after(loaded.filename, place, *texts) for place, texts in lines.items()))


def _place(part: Unloaded, first: ast.stmt) -> ast.stmt | None:
    """The statement to insert after: the load, or the line that creates the part's owner."""
    if part.made is None:
        return first if is_known_before(part.name, first) else None
    return (
        first
        if holds_at(part.name, part.made, first)
        else part.made
        if is_run_before(first, part.made)
        else None
    )
