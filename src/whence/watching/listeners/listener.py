"""The base class of all listeners."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.watching.session import Session


class Listener:
    def __init__(self, session: Session) -> None:
        self.session = session

    def interrupted(self) -> None:
        self.session.interrupted()

    def sensor_failed(self, sensor: str, error: BaseException) -> None:
        self.session.sensor_failed(sensor, error)
