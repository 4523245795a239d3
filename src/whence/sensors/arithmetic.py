"""Sees where numpy says that a result is not a number, or divided by zero: its sums are on no tape."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from whence.sensors.sensor import Complaints, Sensor
from whence.source.sites import Site, user_stack

MOST_PLACES = 64


class ArithmeticSensor(Sensor):
    """Python shows such a warning once for each line, the first time. It is shown as it would have been."""

    name = "arithmetic"
    sees = "warnings from numpy"

    def __init__(self, complaints: Complaints) -> None:
        super().__init__(complaints)
        self.places: list[tuple[Site, ...]] = []
        """Innermost sites first, in the order in which they were warned about."""

    def _attach(self) -> None:
        self._wrap(warnings, "showwarning", self._noting)

    def _noting(self, original: Any) -> Callable[..., None]:
        def noted(message: Any, category: Any, *args: Any, **kwargs: Any) -> None:
            if category is RuntimeWarning:
                self._guarded(self._note)
            original(message, category, *args, **kwargs)

        return noted

    def _note(self) -> None:
        stack = user_stack(sys._getframe(3))
        if stack and len(self.places) < MOST_PLACES:
            self.places.append(stack)
