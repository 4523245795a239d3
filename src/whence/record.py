"""The record of a run, saved while the program runs so that a killed run still has a report.

Standard functions are bound at import time: a program that patches `json.dumps` or `os.replace`
changes nothing here.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import types
import typing
from dataclasses import MISSING, asdict, fields, is_dataclass, replace
from enum import StrEnum
from os import O_CREAT, O_EXCL, O_TRUNC, O_WRONLY, close, getpid, makedirs, mkdir, strerror, unlink
from os import open as open_file
from os import replace as move_over
from os import write as write_bytes
from pathlib import Path
from threading import RLock
from time import strftime
from typing import Any, Protocol

from whence.config import UsageError
from whence.finding import Finding, Outcome, Overhead, Report, Severity
from whence.redaction import finding_without_values, without_values
from whence.version import VERSION

SCHEMA = 1
RUNS = Path(".whence")
_ENCODER = json.JSONEncoder(indent=1, allow_nan=False)
LATER_KEYS = frozenset({"finished", "span", "operands", "table"})
"""Keys that older documents of schema 1 lack."""
MOST_OF_AN_ERROR = 200
NOTABLE_SECONDS = 0.1


def document_of(report: Report) -> dict[str, Any]:
    """Build the JSON document that tools rely on (schema 1)."""
    document = {
        "schema": SCHEMA,
        "whence": VERSION,
        "command": list(report.command),
        "finished": report.finished,
        "outcome": asdict(report.outcome),
        "steps": report.steps,
        "overhead": {
            "ratio": round(report.overhead.ratio, 4),
            "seconds": round(report.overhead.seconds, 4),
        },
        "not_watched": list(report.not_watched),
        "findings": [finding.as_json() for finding in report.findings],
    }
    return typing.cast(dict[str, Any], _encodable(document))


def text_of(report: Report) -> str:
    return _ENCODER.encode(document_of(report)) + "\n"


def _encodable(thing: Any) -> Any:
    """Escape lone surrogates (file names that are not UTF-8), which other JSON readers reject."""
    if isinstance(thing, str):
        return thing.encode("utf-8", "backslashreplace").decode()
    if isinstance(thing, dict):
        return {_encodable(key): _encodable(each) for key, each in thing.items()}
    if isinstance(thing, list | tuple):
        return [_encodable(each) for each in thing]
    return thing


def write_document(report: Report, path: Path) -> None:
    """Write a draft next to the target and rename it, so that no reader sees half a document."""
    data = text_of(report).encode()
    draft = path.with_name(f".{path.name}.{getpid()}")
    try:
        _write(draft, data)
    except PermissionError:
        # The file may be writable although its folder is not.
        _write(path, data)
        return
    except OSError:
        with contextlib.suppress(OSError):
            unlink(draft)
        raise
    move_over(draft, path)


def write_through(report: Report, path: Path) -> None:
    """Write into a pipe or a device, which cannot be replaced."""
    _write(path, text_of(report).encode())


def _write(path: Path, data: bytes) -> None:
    number = open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0o666)
    try:
        while data:
            data = data[write_bytes(number, data) :]
    finally:
        close(number)


def new_run_folder(name: str, root: Path = RUNS) -> Path | None:
    """Create `.whence/<time>-<script>`, with a numeric suffix if that exists.

    Falls back to the temporary directory if the working directory is not writable; None if that
    fails too.
    """
    stem = f"{strftime('%Y%m%d-%H%M%S')}-{name}"
    try:
        return _folder_below(root.absolute(), stem)
    except OSError:
        pass
    try:
        from tempfile import mkdtemp

        return Path(mkdtemp(prefix=f"whence-{stem}-"))
    except OSError:
        return None


def _folder_below(root: Path, stem: str) -> Path:
    makedirs(root, exist_ok=True)
    _keep_out_of_git(root)
    for number in range(1, 10_000):
        folder = root / (stem if number == 1 else f"{stem}-{number}")
        with contextlib.suppress(FileExistsError):
            mkdir(folder)
            return folder
    raise FileExistsError(stem)


def _keep_out_of_git(root: Path) -> None:
    with contextlib.suppress(OSError):
        number = open_file(root / ".gitignore", O_WRONLY | O_CREAT | O_EXCL, 0o666)
        try:
            write_bytes(number, b"*\n")
        finally:
            close(number)


class Writable(Protocol):
    """An object that writes itself into a run folder under a number."""

    def write(self, folder: Path, number: int) -> str: ...


class Record:
    """The report of a run in progress.

    The watchdog thread saves it too, so every change is made under a lock.
    """

    def __init__(
        self,
        command: tuple[str, ...] = (),
        folder: Path | None = None,
        copy: Path | None = None,
        *,
        no_values: bool = False,
    ) -> None:
        self.report = Report(command=command)
        self.folder = folder
        self.copy = copy
        """A second file that is kept up to date, given with --json."""
        self.no_values = no_values
        self.repros = 0
        self._lock = RLock()
        self._saved: Report | None = None

    def add(self, finding: Finding) -> bool:
        """Add a finding; False if it is already known, in which case only its count increases."""
        finding = self.shown(finding)
        with self._lock:
            for number, known in enumerate(self.report.findings):
                is_louder = known.severity is Severity.INFO and finding.severity is Severity.ERROR
                if _same(known, finding) and not is_louder:
                    findings = list(self.report.findings)
                    findings[number] = known.again()
                    self.report = replace(self.report, findings=tuple(findings))
                    return False
            self.report = replace(self.report, findings=(*self.report.findings, finding))
        self.save()
        return True

    def shown(self, finding: Finding) -> Finding:
        """Return the finding as it may leave the process, without values if so configured."""
        return finding_without_values(finding) if self.no_values else finding

    def keep_repro(self, repro: Writable) -> None:
        """Write a script that reproduces a finding next to the report."""
        if self.folder is None or not self.folder.is_dir():
            return
        if self.no_values:
            self.not_watched(
                "repro.py: not written, because it contains tensor values (--no-values)"
            )
            return
        self.repros += 1
        try:
            repro.write(self.folder, self.repros)
        except OSError as error:
            self.not_watched(f"the run folder: a repro could not be written ({error.strerror})")

    def not_watched(self, what: str) -> None:
        what = without_values(what) if self.no_values else what
        with self._lock:
            if what not in self.report.not_watched:
                self.report = replace(self.report, not_watched=(*self.report.not_watched, what))

    def progress(self, steps: int, overhead: Overhead) -> None:
        """Save the progress if it has changed, since a killed run has no later chance."""
        with self._lock:
            if self.report.finished:
                return
            spent = overhead.seconds - self.report.overhead.seconds
            if steps != self.report.steps or spent > NOTABLE_SECONDS:
                self.report = replace(self.report, steps=steps, overhead=overhead)
            if self.report is not self._saved:
                self.save()

    def close(
        self, *, outcome: Outcome, steps: int = 0, overhead: Overhead | None = None
    ) -> Report:
        if self.no_values and outcome.exception is not None:
            outcome = replace(outcome, exception=without_values(outcome.exception))
        with self._lock:
            overhead = overhead or Overhead()
            self.report = replace(
                self.report, outcome=outcome, steps=steps, overhead=overhead, finished=True
            )
        self.save()
        return self.report

    def save(self) -> None:
        """Write the record. A full disk must not affect the program."""
        with self._lock:
            self._saved = self.report
            if self.folder is not None and self.folder.is_dir():
                self._save_to(self.folder / "findings.json", "the run folder: findings.json")
            if self.copy is not None:
                self._save_to(self.copy, f"--json {self.copy}")

    def _save_to(self, path: Path, what: str) -> None:
        try:
            write_document(self.report, path)
        except OSError as error:
            self.not_watched(f"{what} could not be written ({error.strerror})")

    def reaches(self, severity: Severity) -> bool:
        worst = self.report.worst()
        return worst is not None and worst.rank >= severity.rank


def _same(one: Finding, other: Finding) -> bool:
    """Whether two findings have one cause, wherever they surfaced."""
    return (one.rule, one.origin.file, one.origin.line) == (
        other.rule,
        other.origin.file,
        other.origin.line,
    )


class Malformed(ValueError):
    """A document that Whence did not write; the text names the key and the expected type."""


def read_document(path: Path) -> Report:
    """Read a findings.json.

    The file may come from anywhere: it is treated as data, and anything unexpected is rejected.
    """
    try:
        document = json.loads(path.read_bytes().decode("utf-8"), parse_constant=_refuse_constant)
        if not isinstance(document, dict):
            raise Malformed("expected an object")
        if "schema" in document and document["schema"] != SCHEMA:
            raise UsageError(
                f"{path}: schema {str(document['schema'])[:MOST_OF_AN_ERROR]}; this version of "
                f"Whence reads schema {SCHEMA}"
            )
        for key in ("schema", "whence"):
            if key not in document:
                raise Malformed(f"{key} is missing")
        _value_of(int, document["schema"], "schema")
        _value_of(str, document["whence"], "whence")
        document.setdefault("finished", _has_ended(document))
        return typing.cast(Report, _value_of(Report, document, ""))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or strerror(error.errno or 0)}") from error
    except (ValueError, RecursionError, OverflowError, MemoryError) as error:
        what = f"{type(error).__name__}: {error}"[:MOST_OF_AN_ERROR]
        raise UsageError(f"{path} is not a findings.json of Whence ({what})") from error


def _has_ended(document: dict[str, Any]) -> bool:
    """Infer `finished` for older documents, which got outcome and steps only at the end."""
    outcome = document.get("outcome")
    ended = isinstance(outcome, dict) and any(each is not None for each in outcome.values())
    return ended or bool(document.get("steps"))


def _refuse_constant(name: str) -> Any:
    raise Malformed(f"{name} is not JSON")


def _value_of(kind: Any, value: Any, where: str) -> Any:
    """Convert a part of a document to the declared type of its field.

    Unknown keys are later additions and are ignored.
    """
    if isinstance(kind, types.UnionType):
        if value is None and type(None) in kind.__args__:
            return None
        (kind,) = (each for each in kind.__args__ if each is not type(None))
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise Malformed(f"{where}: expected a list")
        return tuple(
            _value_of(kind.__args__[0], each, f"{where}[{number}]")
            for number, each in enumerate(value)
        )
    if is_dataclass(kind):
        return _dataclass_of(typing.cast(Any, kind), value, where)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in list(kind):
            raise Malformed(f"{where}: expected one of {', '.join(kind)}")
        return kind(value)
    if kind is float and type(value) in (int, float):
        number = float(value)
        if not math.isfinite(number):
            raise Malformed(f"{where}: expected a finite number")
        return number
    if type(value) is not kind:
        raise Malformed(f"{where}: expected {kind.__name__}, got {type(value).__name__}")
    if kind is str:
        value.encode("utf-8")
    return value


def _dataclass_of(kind: type[Any], value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise Malformed(f"{where or 'the document'}: expected an object")
    hints = _hints_of(typing.cast(Any, kind))
    given = {}
    for each in fields(kind):
        place = f"{where}.{each.name}".lstrip(".")
        if each.name in value:
            given[each.name] = _value_of(hints[each.name], value[each.name], place)
        elif each.name not in LATER_KEYS or each.default is MISSING:
            raise Malformed(f"{place} is missing")
    return kind(**given)


@functools.cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)
