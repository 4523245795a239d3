"""What Whence says: plain data, the same for every report. Nothing here imports torch."""

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
"""How loud a finding may be, by what is known of it."""


@dataclass(frozen=True, slots=True)
class Span:
    """The expression within its source line that is meant: columns counted as Python's compiler does, in UTF-8 bytes from 0."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Operand:
    """One value that took part, in the program's own words."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The sample of a dataset that is to blame."""

    batch: int | None = None
    position: int | None = None
    dataset_index: int | None = None
    leaf: str | None = None
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the wrong shape, type, value or omission was born."""

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
    """Where it surfaced."""

    file: str
    line: int
    code: str
    what: str
    step: int | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """One station between origin and symptom."""

    file: str
    line: int
    code: str
    what: str


@dataclass(frozen=True, slots=True)
class Proof:
    """What was run again, and what came out."""

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
    # Shown by the terminal and HTML reports; not part of the fixed JSON.
    span: Span | None = None
    operands: tuple[Operand, ...] = ()
    table: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        # What is not proven is no error, and what is only a hint is a note, whatever a rule says.
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
    """What the watch cost: seconds spent in Whence, and the run's time as a ratio to what it would have been."""

    ratio: float = 1.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known of one run."""

    command: tuple[str, ...] = ()
    outcome: Outcome = Outcome()
    steps: int = 0
    overhead: Overhead = Overhead()
    not_watched: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = field(default=())
    finished: bool = False
    """The program has ended and its report is complete; False while it runs, and for ever if it was killed."""

    def worst(self) -> Severity | None:
        return max(
            (finding.severity for finding in self.findings),
            key=lambda severity: severity.rank,
            default=None,
        )


def described(exception: BaseException) -> str:
    """An exception in one line, even if its own `__str__` raises."""
    try:
        return f"{type(exception).__name__}: {exception}".removesuffix(": ")
    except Exception:
        return type(exception).__name__
