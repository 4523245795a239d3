"""The flight recorder: what is known of a run, kept in its folder as it grows so that a killed run still has its report."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol

from whence.config import UsageError
from whence.finding import (
    Confidence,
    Finding,
    Hop,
    Origin,
    Outcome,
    Overhead,
    Proof,
    Report,
    Sample,
    Severity,
    Symptom,
)
from whence.version import VERSION

SCHEMA = 1
RUNS = Path(".whence")


def document_of(report: Report) -> dict[str, Any]:
    """The JSON document that tools rely on (schema 1)."""
    return {
        "schema": SCHEMA,
        "whence": VERSION,
        "command": list(report.command),
        "outcome": asdict(report.outcome),
        "steps": report.steps,
        "overhead": {"ratio": round(report.overhead.ratio, 4), "seconds": round(report.overhead.seconds, 4)},
        "not_watched": list(report.not_watched),
        "findings": [finding.as_json() for finding in report.findings],
    }


def write_document(report: Report, path: Path) -> None:
    """Write beside the target and move over it: a reader never sees half a document."""
    text = json.dumps(document_of(report), indent=1, allow_nan=False)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text + "\n", encoding="utf-8")
    os.replace(draft, path)


def new_run_folder(name: str, root: Path = RUNS) -> Path:
    """Make `.whence/<time>-<script>`, with a number behind it if there is one already."""
    stem = f"{time.strftime('%Y%m%d-%H%M%S')}-{name}"
    for number in range(1, 10_000):
        folder = root / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
            return folder.absolute()
        except FileExistsError:
            if not root.is_dir():
                raise
    raise FileExistsError(stem)


class Writable(Protocol):
    """What can write itself into a run folder, under a number."""

    def write(self, folder: Path, number: int) -> str: ...


class Record:
    """Grows while the program runs."""

    def __init__(self, command: tuple[str, ...] = (), folder: Path | None = None) -> None:
        self.report = Report(command=command)
        self.folder = folder
        self.repros = 0

    def add(self, finding: Finding) -> bool:
        """Take a finding; False if it is one that is there already, which is then counted."""
        for number, known in enumerate(self.report.findings):
            if _same(known, finding) and not (known.severity is Severity.INFO and finding.severity is Severity.ERROR):
                findings = list(self.report.findings)
                findings[number] = known.again()
                self.report = replace(self.report, findings=tuple(findings))
                return False
        self.report = replace(self.report, findings=(*self.report.findings, finding))
        self.save()
        return True

    def keep_repro(self, repro: Writable) -> None:
        """Keep a script that reproduces a finding beside the report."""
        if self.folder is None or not self.folder.is_dir():
            return
        self.repros += 1
        try:
            repro.write(self.folder, self.repros)
        except OSError as error:
            self.not_watched(f"the run folder: a repro could not be written ({error.strerror})")

    def not_watched(self, what: str) -> None:
        if what not in self.report.not_watched:
            self.report = replace(self.report, not_watched=(*self.report.not_watched, what))

    def close(self, *, outcome: Outcome, steps: int = 0, overhead: Overhead | None = None) -> Report:
        self.report = replace(self.report, outcome=outcome, steps=steps, overhead=overhead or Overhead())
        self.save()
        return self.report

    def save(self) -> None:
        """Write what is known. A full disk costs the report and not the program."""
        if self.folder is None or not self.folder.is_dir():
            return
        try:
            write_document(self.report, self.folder / "findings.json")
        except OSError as error:
            self.not_watched(f"the run folder: findings.json could not be written ({error.strerror})")

    def reaches(self, severity: Severity) -> bool:
        worst = self.report.worst()
        return worst is not None and worst.rank >= severity.rank


def _same(one: Finding, other: Finding) -> bool:
    """One cause, wherever it surfaces."""
    return (one.rule, one.origin.file, one.origin.line) == (other.rule, other.origin.file, other.origin.line)


def read_document(path: Path) -> Report:
    """Read a findings.json. It may come from anywhere: it is data, and what does not fit is refused."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise UsageError(f"{path}: schema {document['schema']!r}; this Whence reads schema {SCHEMA}")
        return Report(
            command=tuple(map(str, document["command"])),
            outcome=Outcome(**document["outcome"]),
            steps=int(document["steps"]),
            overhead=Overhead(float(document["overhead"]["ratio"]), float(document["overhead"]["seconds"])),
            not_watched=tuple(map(str, document["not_watched"])),
            findings=tuple(map(finding_of, document["findings"])),
        )
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, AttributeError) as error:
        raise UsageError(f"{path} is not a findings.json of Whence ({type(error).__name__}: {error})") from error


def finding_of(document: dict[str, Any]) -> Finding:
    texts = (document["verdict"], document["why"], document["fix"], document["rule"])
    if not all(isinstance(each, str) for each in texts) or not isinstance(document["patch"], str | None):
        raise TypeError("a finding's texts must be strings")
    if not isinstance(document["origin"]["line"], int) or not isinstance(document["symptom"]["line"], int):
        raise TypeError("lines must be numbers")
    origin = dict(document["origin"])
    origin["sample"] = Sample(**origin["sample"]) if origin["sample"] is not None else None
    return Finding(
        **{
            **document,
            "severity": Severity(document["severity"]),
            "confidence": Confidence(document["confidence"]),
            "origin": Origin(**origin),
            "symptom": Symptom(**document["symptom"]),
            "chain": tuple(Hop(**hop) for hop in document["chain"]),
            "proof": Proof(**document["proof"]),
        }
    )
