"""The result of a check, verdict first."""

from __future__ import annotations

from dataclasses import dataclass

from whence.data.departure import Departure
from whence.finding import Severity


class ContractBroken(AssertionError):
    """The data break their contract. `result` has the details."""

    def __init__(self, result: Result) -> None:
        super().__init__(str(result))
        self.result = result

    def __reduce__(self) -> tuple[type[ContractBroken], tuple[Result]]:
        return ContractBroken, (self.result,)


@dataclass(frozen=True, slots=True)
class Result:
    """Departures, most severe first. Notes (severity `info`) do not break the contract."""

    departures: list[Departure]
    rows: int = 0

    @property
    def ok(self) -> bool:
        return all(each.severity is Severity.INFO for each in self.departures)

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [self._answer()]
        lines += [f"  {each.severity:<8}{each.message}" for each in self.departures]
        return "\n".join(lines)

    def _answer(self) -> str:
        checked = f"{self.rows:,} row{'s' if self.rows != 1 else ''} checked"
        if self.ok:
            return f"contract kept: {checked}"
        counts = [
            (sum(each.severity is severity for each in self.departures), severity)
            for severity in (Severity.ERROR, Severity.WARNING)
        ]
        said = ", ".join(
            f"{count} {severity}{'s' if count > 1 else ''}" for count, severity in counts if count
        )
        return f"contract broken: {said}; {checked}"

    def raise_if_broken(self) -> None:
        """Raise ContractBroken if the contract is broken."""
        if not self.ok:
            raise ContractBroken(self)
