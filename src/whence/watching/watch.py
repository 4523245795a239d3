"""`whence.watch`: the watch from inside a program, as a context manager or until it is closed."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from whence.config import read_config
from whence.finding import Finding, Outcome, Report, described
from whence.record import Record, new_run_folder
from whence.report.live import LiveReport
from whence.report.note import render_note
from whence.report.stderr import stderr_of_a_watch
from whence.source.interrupts import is_interrupt
from whence.watching.session import Session, running

_current: Watch | None = None


class Watch:
    """A running watch. Closing it twice is harmless; a copy in another process is closed."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._entered = 0
        self._session = running()
        self._owns = self._session is None
        if self._session is None:
            # If the folder cannot be created, the record is lost but the program runs.
            folder = new_run_folder("watch")
            config = read_config(Path.cwd())
            self._screen = LiveReport(quiet=quiet, folder=folder, stream=stderr_of_a_watch())
            record = Record(command=("whence.watch",), folder=folder, no_values=config.no_values)
            self._session = Session(config, record, self._screen)
            self._session.start()
        # Under `whence run`, or within another watch, this is another name for that watch.
        self._record = self._session.record

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
            _current = None
            if self._owns:
                self._finish(session, outcome)
        return self._record.report

    def _finish(self, session: Session, outcome: Outcome) -> None:
        try:
            self._screen.close(session.close(outcome))
        except Exception as error:
            if is_interrupt(error):
                raise
            self._screen.complain(f"could not finish the report: {described(error)}")
        finally:
            self._screen.end()

    def __enter__(self) -> Watch:
        self._entered += 1
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        exception: BaseException | None,
        _: TracebackType | None,
    ) -> None:
        self._entered -= 1
        if exception is not None and self._session is not None and self._owns:
            for finding in self._session.program_failed(exception):
                note = render_note(finding)
                if note not in getattr(exception, "__notes__", []):
                    exception.add_note(note)
        if not self._entered:
            self._close(Outcome(exception=described(exception) if exception is not None else None))

    def __reduce__(self) -> tuple[Any, ...]:
        return _closed_watch, ()


def _closed_watch() -> Watch:
    watch = Watch.__new__(Watch)
    watch._entered, watch._session, watch._owns, watch._record = 0, None, False, Record()
    return watch


def watch(*_things: Any, quiet: bool = False) -> Watch:
    """Watch training from here on, as `whence run` does from the beginning.

    Models and optimizers may be named for the reader; everything that trains in this process is
    watched. A second call while a watch is open returns the same watch.
    """
    global _current
    if _current is None or _current.closed:
        _current = Watch(quiet=quiet)
    return _current
