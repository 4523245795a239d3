"""Findings and reports as plain data, shared by all renderers. Nothing here imports torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @property
    def rank(self) -> int:
        return list(Severity).index(self)


class Confidence(StrEnum):
    HINT = "hint"
    LIKELY = "likely"
    PROVEN = "proven"


LOUDEST = {
    Confidence.HINT: Severity.INFO,
    Confidence.LIKELY: Severity.WARNING,
    Confidence.PROVEN: Severity.ERROR,
}
"""The highest severity allowed at each confidence."""


@dataclass(frozen=True, slots=True)
class Span:
    """Source range of an expression.

    Columns are UTF-8 byte offsets from 0, as in Python's compiler.
    """

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that took part in the operation, under its name in the program."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The dataset sample that causes the finding."""

    batch: int | None = None
    position: int | None = None
    dataset_index: int | None = None
    leaf: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the wrong shape, type, value or omission first appears."""

    file: str
    line: int
    code: str
    function: str
    phase: str = "program"
    step: int | None = None
    op: str | None = None
    module: str | None = None
    sample: Sample | None = None


@dataclass(frozen=True, slots=True)
class Symptom:
    """Where the problem became visible."""

    file: str
    line: int
    code: str
    what: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the path from origin to symptom."""

    file: str
    line: int
    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was replayed, and the result."""

    replay: str | None = None
    counterfactual: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    severity: Severity
    confidence: Confidence
    verdict: str
    origin: Origin
    symptom: Symptom
    why: str
    fix: str
    chain: tuple[Hop, ...] = ()
    patch: str | None = None
    proof: Proof = Proof()
    occurrences: int = 1
    # Shown by the reports only; not part of the JSON schema.
    span: Span | None = None
    operands: tuple[Operand, ...] = ()
    table: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # Cap the severity whatever the rule set: only proven findings are errors, and hints are
        # notes.
        loudest = LOUDEST[self.confidence]
        if self.severity.rank > loudest.rank:
            object.__setattr__(self, "severity", loudest)

    def as_json(self) -> dict[str, Any]:
        document = asdict(self)
        for shown_only in ("span", "operands", "table"):
            del document[shown_only]
        return document

    def again(self) -> Finding:
        return replace(self, occurrences=self.occurrences + 1)


@dataclass(frozen=True, slots=True)
class Outcome:
    exit_code: int | None = None
    exception: str | None = None


@dataclass(frozen=True, slots=True)
class Overhead:
    """Cost of the watch: seconds spent in Whence, and run time relative to an unwatched run."""

    ratio: float = 1.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything recorded about one run."""

    command: tuple[str, ...] = ()
    outcome: Outcome = Outcome()
    steps: int = 0
    overhead: Overhead = Overhead()
    not_watched: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    finished: bool = False
    """Whether the program ended and the report is complete; stays False if it was killed."""

    def worst(self) -> Severity | None:
        return max(
            (finding.severity for finding in self.findings),
            key=lambda severity: severity.rank,
            default=None,
        )


def described(exception: BaseException) -> str:
    """Describe an exception in one line, even if its `__str__` raises."""
    try:
        return f"{type(exception).__name__}: {exception}".removesuffix(": ")
    except Exception:
        return type(exception).__name__
