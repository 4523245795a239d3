"""The contract: learned from training data, stored in a file, compared with other data."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from whence.data.checking import check, summary_for
from whence.data.departure import Departure, Kind
from whence.data.document import read_document, write
from whence.data.learning import learn
from whence.data.leaves import Leaf
from whence.data.result import Result
from whence.data.serving import in_form, is_sample_of, row_by_name
from whence.data.sources import batches_of, is_one_batch, looks_like_sample, random_streams_kept
from whence.data.summary import Summary
from whence.data.terms import ContractError, Terms
from whence.finding import Severity

if TYPE_CHECKING:
    from whence.data.transformer import ContractTransformer


@dataclass(frozen=True, slots=True)
class Contract:
    """A description of valid data.

    Made by `fit` or `load`; its file is meant to be read and edited.
    """

    terms: Terms

    @classmethod
    def fit(cls, data: Any) -> Self:
        """Learn from arrays, frames, a dataset, a loader or any iterable of batches, read once."""
        _refuse_a_path(data)
        summary = Summary()
        with random_streams_kept(data):
            for leaves in batches_of(data, _never if is_one_batch(data) else looks_like_sample):
                summary.add_leaves(leaves)
        return cls.of(summary)

    @classmethod
    def of(cls, summary: Summary) -> Self:
        """Learn from a summary."""
        return cls(learn(summary))

    def save(self, path: str | os.PathLike[str]) -> None:
        Path(path).write_text(write(self.terms), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a contract's file. Raises ContractError, naming the wrong key, if it is not one."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise ContractError(f"{os.fspath(path)}: not UTF-8 text") from None
        return cls(read_document(text, os.fspath(path)))

    def summary(self) -> Summary:
        """Return an empty summary to feed batch by batch and to pass to `judge`."""
        return summary_for(self.terms)

    def check(self, data: Any) -> Result:
        """Check data against the contract: whatever `fit` takes, or one batch or one sample."""
        _refuse_a_path(data)
        summary = self.summary()
        with random_streams_kept(data):
            row = row_by_name(data, self.terms)
            batches = (
                batches_of(data, lambda each: is_sample_of(each, self.terms))
                if row is None
                else [[row]]
            )
            for leaves in batches:
                summary.add_leaves(in_form(leaves, self.terms))
        return self.judge(summary)

    def judge(self, summary: Summary) -> Result:
        """Check a summary against the contract."""
        if not summary.batches:
            nothing = Departure(
                "", (), Kind.UNCHECKED, Severity.INFO, "could not check the data: there are none"
            )
            return Result([nothing])
        return Result(check(self.terms, summary), summary.rows)

    def transformer(self, on_departure: str = "raise") -> ContractTransformer:
        """Return a scikit-learn pipeline step that passes data through and checks it."""
        from whence.data.transformer import ContractTransformer

        return ContractTransformer(self, on_departure)

    def __str__(self) -> str:
        return write(self.terms)


def _refuse_a_path(data: Any) -> None:
    """Reject a file name, which would be read as a column of one word."""
    if isinstance(data, os.PathLike) or (isinstance(data, str) and os.path.exists(data)):
        raise ContractError(
            f"{os.fspath(data)!r} is a file name: pass its contents, as read by pandas.read_csv "
            "or numpy.load"
        )


def _never(_leaves: list[Leaf]) -> bool:
    """Treat a structure of arrays as the data when learning, not as one sample."""
    return False
