"""Sensor for NumPy's warnings about invalid values and division by zero.

NumPy operations are not on the tape, so these warnings are the only evidence of them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import Any

from whence.sensors.sensor import Complaints, Sensor
from whence.source.sites import Site, user_stack

MOST_PLACES = 64


class ArithmeticSensor(Sensor):
    """Record where NumPy warns.

    Python shows such a warning once per line, the first time. It is still shown as in a plain run.
    """

    name = "arithmetic"
    sees = "NumPy warnings"

    def __init__(self, complaints: Complaints) -> None:
        super().__init__(complaints)
        self.places: list[tuple[Site, ...]] = []
        """Innermost sites first, in the order of the warnings."""

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
