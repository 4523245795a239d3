"""Findings on a terminal: the answer first, then where it began, how it got here, why, and what to do."""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterable

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from whence.finding import Finding, Report, Severity

COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
MOST_IN_FULL = 10
LABEL = 9


def console(*, stderr: bool = True, width: int | None = None) -> Console:
    made = Console(stderr=stderr, highlight=False, soft_wrap=False, width=width)
    if width is None and not made.is_terminal:
        made = Console(stderr=stderr, highlight=False, soft_wrap=False, width=int(os.environ.get("COLUMNS") or 100))
    return made


def render_finding(finding: Finding) -> RenderableType:
    """One finding in full."""
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
    body += _origin(finding)
    body += _chain(finding)
    if finding.table:
        body += [_labelled("shapes", Text("\n".join(finding.table)))]
    body += [_labelled("why", Text(finding.why)), _labelled("fix", Text(finding.fix, style="green"))]
    if finding.patch:
        body.append(Padding(_patch(finding.patch), (0, 0, 0, LABEL), expand=False))
    if finding.proof.replay or finding.proof.counterfactual:
        proof = "; ".join(filter(None, (finding.proof.replay, finding.proof.counterfactual)))
        body.append(_labelled("proof", Text(proof)))
    return Group(*body)


def render_line(finding: Finding) -> Text:
    """One finding in one line."""
    origin = finding.origin
    return Text.assemble(
        (f"{finding.severity}", COLOURS[finding.severity]),
        f" {finding.rule}  {origin.file}:{origin.line}  {finding.verdict}",
    )


def render_summary(report: Report, folder: str | None) -> Iterable[RenderableType]:
    """The last words of a run: one line if nothing was found."""
    found = [each for each in report.findings if each.severity is not Severity.INFO]
    notes = len(report.findings) - len(found)
    steps = f"{report.steps} step{'s' if report.steps != 1 else ''} watched"
    if not report.steps:
        steps = "no training step was seen"
    said = f"{len(found)} finding{'s' if len(found) != 1 else ''}" if found else "nothing found"
    if notes:
        said += f", {notes} note{'s' if notes != 1 else ''}"
    cost = f"the watch cost {report.overhead.seconds:.2f} s"
    line = Text.assemble(("whence ", "bold"), (f"{steps}, {said}; {cost}", "" if found else "green"))
    if folder:
        line.append(f"; .whence/{folder}" if "/" not in folder else f"; {folder}", style="dim")
    yield line
    for each in report.not_watched:
        yield Text(f"  not watched: {each}", style="dim")


def _labelled(label: str, content: RenderableType) -> RenderableType:
    grid = Table.grid(padding=0)
    grid.add_column(width=LABEL, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="dim"), content)
    return grid


def _origin(finding: Finding) -> list[RenderableType]:
    origin = finding.origin
    where = f"{origin.file}:{origin.line}"
    if origin.function not in ("", "<module>"):
        where += f" in {origin.function}"
    if origin.sample is not None and origin.sample.dataset_index is not None:
        where += f", sample {origin.sample.dataset_index}"
        if origin.sample.path:
            where += f" ({origin.sample.path})"
    lines: list[RenderableType] = [_labelled("began", Text(where, style="bold"))]
    lines.append(Padding(_source(finding), (0, 0, 0, LABEL), expand=False))
    lines += [
        Padding(Text.assemble((f"{operand.name}  ", "bold"), operand.description), (0, 0, 0, LABEL + 2), expand=False)
        for operand in finding.operands
    ]
    return lines


def _source(finding: Finding) -> Text:
    """The origin's line with the expression underlined."""
    span = finding.span
    source = linecache.getline(finding.origin.file, finding.origin.line).rstrip("\n")
    if span is None or not source:
        return Text(f"  {finding.origin.code}")
    indent = len(source) - len(source.lstrip())
    start = len(source.encode()[: span.column].decode(errors="replace"))
    end = (
        len(source.encode()[: span.end_column].decode(errors="replace")) if span.end_line == span.line else len(source)
    )
    code = source.split("  #")[0].rstrip() if "  #" in source[end:] else source
    text = Text("  " + code[indent:])
    if end > start >= indent:
        text.append("\n  " + " " * (start - indent) + "^" * (end - start), style="bold red")
    return text


def _chain(finding: Finding) -> list[RenderableType]:
    rows: list[RenderableType] = []
    label = "then"
    for hop in finding.chain[:8]:
        rows.append(_labelled(label, Text.assemble(f"{hop.file}:{hop.line}  ", (hop.code, "cyan"), f"  {hop.what}")))
        label = ""
    symptom = finding.symptom
    if (symptom.file, symptom.line) != (finding.origin.file, finding.origin.line) or not rows:
        where = f"{symptom.file}:{symptom.line}  "
        rows.append(_labelled("surfaced", Text.assemble(where, (symptom.code, "cyan"), f"  {symptom.what}")))
    return rows


def _patch(patch: str) -> RenderableType:
    return Syntax(patch.rstrip("\n"), "diff", background_color="default", word_wrap=True)
