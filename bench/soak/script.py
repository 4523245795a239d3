"""A training script in sections, and its text with the lines in which faults can be planted."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass, field

ROLE = re.compile(r"\s*#@(\w+)$")


@dataclass
class Script:
    """The sections written so far. A line may end with `#@role`, which names that line."""

    imports: set[str] = field(default_factory=set)
    setup: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    data: list[str] = field(default_factory=list)
    build: list[str] = field(default_factory=list)
    optimizer: list[str] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    step_start: list[str] = field(default_factory=list)
    step_end: list[str] = field(default_factory=list)
    epoch_end: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    # Wrappers of the forward pass, the whole step, and the whole training.
    forward_contexts: list[str] = field(default_factory=list)
    step_contexts: list[str] = field(default_factory=list)
    training_contexts: list[str] = field(default_factory=list)
    digested: list[str] = field(default_factory=list)
    ending: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Text:
    """A finished script: its source, and the number of the line that has each role."""

    source: str
    roles: dict[str, int]


def block(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def indent(text: str, levels: int = 1) -> str:
    return textwrap.indent(text, "    " * levels)


def within(contexts: list[str], text: str) -> str:
    """Indent the text inside `with` statements, the first one outermost."""
    for each in reversed(contexts):
        text = f"with {each}:\n{indent(text)}"
    return text


def strip_roles(text: str) -> Text:
    """Remove the roles from their lines; if a role occurs twice, the first line counts."""
    lines, roles = [], {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := ROLE.search(line):
            roles.setdefault(found.group(1), number)
            line = line[: found.start()]
        lines.append(line)
    return Text("\n".join(lines) + "\n", roles)
