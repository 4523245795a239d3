"""The report as a table: a verdict, a line per check, and why and fix where something is wrong."""

from __future__ import annotations

import io
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.checking.result import Check, CheckReport, Outcome

COLOURS = {
    Outcome.PASSED: "green",
    Outcome.WARNING: "yellow",
    Outcome.FAILED: "red",
    Outcome.UNCHECKED: "dim",
}
WORDS = {Outcome.UNCHECKED: "not made"}


def render(report: CheckReport) -> RenderableType:
    """Render all checks, in order."""
    return Group(_headline(report), Text(), _table(report.checks))


def render_bad(report: CheckReport) -> RenderableType:
    """Render only failed checks."""
    return Group(_headline(report), Text(), _table(report.having(Outcome.FAILED)))


def as_text(report: CheckReport, width: int = 100) -> str:
    return without_blanks(render(report), width)


def without_blanks(table: RenderableType, width: int) -> str:
    """Render plain text for files and pipes: no colour, no trailing blanks."""
    screen = Console(
        file=io.StringIO(), width=width, color_system=None, highlight=False, legacy_windows=False
    )
    screen.print(table)
    written = screen.file.getvalue()  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in str(written).rstrip("\n").splitlines())


def _headline(report: CheckReport) -> Text:
    command, _, said = report.headline.partition(": ")
    return Text.assemble((f"{command}: ", "bold"), (said, "green" if report.ok else "bold red"))


def _table(checks: tuple[Check, ...]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for check in checks:
        word = Text(WORDS.get(check.outcome, str(check.outcome)), style=COLOURS[check.outcome])
        table.add_row(word, Text(check.name), Group(Text(check.measured), *_explanation(check)))
    return table


def _explanation(check: Check) -> Iterator[RenderableType]:
    if check.place is not None:
        place = check.place
        yield _labelled(
            "where", Text.assemble((f"{place.file}:{place.line}", "bold"), f"  {place.code}")
        )
    if check.why:
        yield _labelled("why", Text(check.why))
    if check.fix:
        yield _labelled("fix", Text(check.fix, style="green"))
    for note in check.notes:
        yield Text(note, style="dim")
    if check.outcome in (Outcome.FAILED, Outcome.WARNING):
        yield Padding(Text(), (0, 0))


def _labelled(label: str, content: Text) -> Table:
    row = Table.grid(padding=(0, 1))
    row.add_column(width=5, no_wrap=True)
    row.add_column(overflow="fold")
    row.add_row(Text(label, style="dim"), content)
    return row
