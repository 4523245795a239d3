"""A finding as a note on the program's exception: three lines, no colour."""

from __future__ import annotations

from whence.finding import Finding
from whence.report.escapes import printable


def render_note(finding: Finding) -> str:
    finding = printable(finding)
    origin = finding.origin
    return (
        f"whence: {finding.verdict}  [{finding.rule}]\n"
        f"  began at {origin.file}:{origin.line}  {origin.code}\n"
        f"  fix: {finding.fix}"
    )
