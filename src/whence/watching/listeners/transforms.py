"""The transform listener: calls of functions that `torch.func` returns."""

from __future__ import annotations

from typing import Any

from whence.tape.transform import Transform
from whence.watching.listeners.listener import Listener


class TransformListener(Listener):
    def transform_began(self, transform: Transform) -> None:
        session = self.session
        if not session.is_looking:
            with session.looking():
                session.functional.began(transform)
            session.stop_if_asked()

    def transform_ended(self, transform: Transform, result: Any) -> None:
        session = self.session
        if not session.is_looking:
            with session.looking():
                session.functional.ended(transform, result)
            session.stop_if_asked()
