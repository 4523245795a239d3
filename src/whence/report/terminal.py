"""Findings on a terminal: verdict, origin, chain, reason and fix."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from whence.finding import Finding, Report, Severity
from whence.report.escapes import escaped, escaped_line, printable

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
LABEL = 9
DIFF = {"+": "green", "-": "red", "@": "cyan"}


class SafeConsole(Console):
    """A console that escapes all text on output: only rich itself can send control characters."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(escaped(each.text), each.style)


def console(*, stderr: bool = True, width: int | None = None, file: Any = None) -> Console:
    # Brackets in column names and source lines are not markup.
    made = SafeConsole(
        file=file,
        stderr=stderr,
        highlight=False,
        soft_wrap=False,
        markup=False,
        emoji=False,
        width=width,
    )
    if width is None and not made.is_terminal:
        columns = os.environ.get("COLUMNS", "")
        made.width = max(int(columns), 20) if columns.isdecimal() and len(columns) < 5 else 100
    return made


def render_finding(finding: Finding) -> RenderableType:
    """Render one finding in full."""
    source = _source(finding)
    finding = printable(finding)
    colour = COLOURS[finding.severity]
    head = Text.assemble(
        ("whence ", "bold"),
        (f"{finding.severity} ", f"bold {colour}"),
        (finding.verdict, "bold"),
    )
    tag = f"{finding.rule} · {finding.confidence}" + (
        f" · {finding.occurrences} times" if finding.occurrences > 1 else ""
    )
    body: list[RenderableType] = [head, Text(tag, style="dim"), Text()]
    body += _origin(finding, source)
    body += _chain(finding)
    if finding.table:
        body += [Labelled("shapes", Text("\n".join(finding.table)))]
    body += [Labelled("why", Text(finding.why)), Labelled("fix", Text(finding.fix, style="green"))]
    if finding.patch:
        body.append(_patch(finding.patch))
    if finding.proof.replay or finding.proof.counterfactual:
        proof = "; ".join(filter(None, (finding.proof.replay, finding.proof.counterfactual)))
        body.append(Labelled("proof", Text(proof)))
    return Group(*body)


def render_line(finding: Finding) -> Text:
    """Render one finding as one line."""
    finding = printable(finding)
    origin = finding.origin
    return Text.assemble(
        (f"{finding.severity}", COLOURS[finding.severity]),
        f" {finding.rule}  {origin.file}:{origin.line}  {finding.verdict}",
    )


def render_summary(report: Report, folder: str | None) -> Iterable[RenderableType]:
    """Render the end of a run: what was not watched, then a summary line."""
    for each in report.not_watched:
        yield Text(f"  not watched: {escaped_line(each)}", style="dim")
    found = [each for each in report.findings if each.severity is not Severity.INFO]
    notes = len(report.findings) - len(found)
    said = f"{len(found)} finding{'s' if len(found) != 1 else ''}" if found else "nothing found"
    if notes:
        said += f", {notes} note{'s' if notes != 1 else ''}"
    cost = f"overhead {report.overhead.seconds:.2f} s"
    colour = "" if found or not report.finished else "green"
    line = Text.assemble(("whence ", "bold"), (f"{_course(report)}, {said}; {cost}", colour))
    if folder:
        line.append(f"; {escaped_line(folder)}", style="dim")
    yield line


def _course(report: Report) -> str:
    """Describe how far the run got."""
    steps = f"{report.steps} step{'s' if report.steps != 1 else ''}"
    if report.finished:
        return f"{steps} watched" if report.steps else "no training step was seen"
    seen = f"{steps} watched" if report.steps else "no step watched so far"
    return f"the run did not finish: killed or still running; {seen}"


@dataclass(frozen=True, slots=True)
class Labelled:
    """A label in the margin with wrapped text next to it, without trailing blanks."""

    label: str
    content: Text
    hanging: int = 0
    """Extra indentation of every line but the first."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        margin = self.label
        for line in self.content.wrap(
            console, max(options.max_width - LABEL - self.hanging, 20), overflow="fold"
        ):
            line.rstrip()
            yield (
                Text.assemble((margin.ljust(LABEL), "dim"), line)
                if line
                else Text(margin, style="dim")
            )
            margin = " " * (LABEL + self.hanging)


@dataclass(frozen=True, slots=True)
class Underlined:
    """A source line with a part underlined; a long line is cut around that part."""

    code: str
    start: int
    end: int

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(options.max_width - LABEL - 4, 20)
        code, start, end = self.code, self.start, self.end
        if len(code) > room:
            first = max(0, min(start - room // 4, len(code) - room))
            code = ("…" if first else "") + code[first + bool(first) : first + room]
            code += "…" if first + room < len(self.code) else ""
            start, end = start - first, min(end - first, room)
        yield Text(" " * (LABEL + 2) + code)
        if end > start >= 0:
            yield Text(" " * (LABEL + 2 + start) + "^" * (end - start), style="bold red")


def _origin(finding: Finding, source: RenderableType) -> list[RenderableType]:
    origin = finding.origin
    where = f"{origin.file}:{origin.line}"
    if origin.function not in ("", "<module>"):
        where += f" in {origin.function}"
    if origin.sample is not None and origin.sample.dataset_index is not None:
        where += f", sample {origin.sample.dataset_index}"
        if origin.sample.path:
            where += f" ({origin.sample.path})"
    lines: list[RenderableType] = [Labelled("began", Text(where, style="bold"))]
    lines.append(source)
    lines += [
        Labelled("", Text.assemble((f"  {operand.name}  ", "bold"), operand.description), hanging=4)
        for operand in finding.operands
    ]
    return lines


def _source(finding: Finding) -> Underlined:
    """Render the origin's line with the expression underlined."""
    span, file = finding.span, finding.origin.file
    # A record from elsewhere has no span; never open a file because a record names it.
    source = linecache.getline(file, finding.origin.line).rstrip("\n") if span is not None else ""
    if span is None or not source:
        return Underlined(escaped(finding.origin.code), 0, 0)
    indent = len(source) - len(source.lstrip())
    start = len(source.encode()[: span.column].decode(errors="replace"))
    end = (
        len(source.encode()[: span.end_column].decode(errors="replace"))
        if span.end_line == span.line
        else len(source)
    )
    code = source.split("  #")[0].rstrip() if "  #" in source[end:] else source
    before, marked, behind = map(
        escaped, (code[indent:start], code[max(start, indent) : end], code[max(end, indent) :])
    )
    return Underlined(before + marked + behind, len(before), len(before) + len(marked))


def _chain(finding: Finding) -> list[RenderableType]:
    rows: list[RenderableType] = []
    label = "then"
    for hop in finding.chain[:8]:
        rows.append(
            Labelled(
                label,
                Text.assemble(f"{hop.file}:{hop.line}  ", (hop.code, "cyan"), f"  {hop.what}"),
            )
        )
        label = ""
    symptom = finding.symptom
    if (symptom.file, symptom.line) != (finding.origin.file, finding.origin.line) or not rows:
        where = f"{symptom.file}:{symptom.line}  "
        rows.append(
            Labelled("surfaced", Text.assemble(where, (symptom.code, "cyan"), f"  {symptom.what}"))
        )
    return rows


def _patch(patch: str) -> Text:
    """Render a diff without wrapping, so that it can be copied."""
    text = Text(no_wrap=True, overflow="ignore")
    for line in patch.rstrip("\n").splitlines():
        text.append((" " * LABEL + line).rstrip() + "\n", style=DIFF.get(line[:1], ""))
    text.rstrip()
    return text
