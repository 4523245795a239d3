"""`whence.watch`: the watch from inside a program, as a context manager or until it is closed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from whence.config import read_config
from whence.finding import Finding, Outcome, Report
from whence.record import Record, new_run_folder
from whence.report.live import LiveReport
from whence.report.note import render_note
from whence.session import Session

_current: Watch | None = None


class Watch:
    """A running watch. Closing it twice is harmless; a copy in another process is a closed one."""

    def __init__(self, *, quiet: bool = False, folder: Path | None = None) -> None:
        self._record = Record(command=("whence.watch",), folder=folder)
        self._screen = LiveReport(quiet=quiet, folder=folder)
        self._session: Session | None = Session(read_config(Path.cwd()), self._record, self._screen)
        self._session.start()
        self._entered = 0

    @property
    def report(self) -> Report:
        return self._record.report

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self._record.report.findings

    @property
    def closed(self) -> bool:
        return self._session is None

    def close(self) -> Report:
        return self._close(Outcome())

    def _close(self, outcome: Outcome) -> Report:
        global _current
        if self._session is not None:
            session, self._session = self._session, None
            self._screen.close(session.close(outcome))
            _current = None
        return self._record.report

    def __enter__(self) -> Watch:
        self._entered += 1
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, exception: BaseException | None, _: TracebackType | None
    ) -> None:
        self._entered -= 1
        if exception is not None and self._session is not None:
            for finding in self._session.program_failed(exception):
                note = render_note(finding)
                if note not in getattr(exception, "__notes__", []):
                    exception.add_note(note)
        if not self._entered:
            self._close(Outcome(exception=type(exception).__name__ if exception is not None else None))

    def __reduce__(self) -> tuple[Any, ...]:
        return _closed_watch, ()


def _closed_watch() -> Watch:
    watch = Watch.__new__(Watch)
    watch._record, watch._session = Record(), None
    watch._screen = LiveReport(quiet=True, folder=None)
    watch._entered = 0
    return watch


def watch(*_things: Any, quiet: bool = False) -> Watch:
    """Watch training from here on, as `whence run` does from the beginning.

    Models and optimizers may be named for the reader's sake; everything that trains in this process is watched.
    A second call while a watch is open gives the same watch.
    """
    global _current
    if _current is None or _current.closed:
        try:
            folder = new_run_folder("watch")
        except OSError:
            # A folder that cannot be made costs the record and not the program.
            folder = None
        _current = Watch(quiet=quiet, folder=folder)
    return _current
