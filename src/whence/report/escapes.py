"""Escape control characters in printed text, so that they never reach the terminal.

Names, paths, source lines and exception texts come from the program and its data. A terminal would
obey an escape sequence in them, and a bidirectional control would reorder the visible line.
"""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")

_CONTROLS = (
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 except tab and newline, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u2028\u2029"  # separators at which some terminals break lines
    "\ud800-\udfff"  # lone surrogates, which cannot be encoded
)
_CONTROL = re.compile(f"[{_CONTROLS}]")
_CONTROL_OR_BREAK = re.compile(f"[{_CONTROLS}\t\n]")
ONE_LINE = frozenset({"file", "function", "module", "op", "leaf", "path", "name", "rule"})
"""Fields of a finding that are always one line."""


def escaped(text: str) -> str:
    """Replace each control character by its Python escape; keep newlines and tabs."""
    return _CONTROL.sub(_escape, text)


def escaped_line(text: str) -> str:
    """Escape newlines and tabs as well, for text that must stay on one line."""
    return _CONTROL_OR_BREAK.sub(_escape, text)


def printable(thing: T) -> T:
    """Escape all texts of a finding or another plain dataclass."""
    return _printable(thing, escaped)  # type: ignore[no-any-return]


def _printable(thing: Any, escape: Any) -> Any:
    if type(thing) is str:
        return escape(thing)
    if isinstance(thing, tuple):
        return tuple(_printable(each, escape) for each in thing)
    if is_dataclass(thing) and not isinstance(thing, type):
        ways = {
            each.name: escaped_line if each.name in ONE_LINE else escaped for each in fields(thing)
        }
        changed = {name: _printable(getattr(thing, name), way) for name, way in ways.items()}
        return replace(thing, **changed)
    return thing


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    names = {9: "\\t", 10: "\\n", 13: "\\r"}
    return names.get(code) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
