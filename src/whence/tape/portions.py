"""Gradient accumulation over several backwards before an optimizer step."""

from __future__ import annotations


class Portions:
    """How many backwards the program makes per step, and how many since the last step."""

    def __init__(self) -> None:
        self.made = 0
        # Two, for programs whose two optimizers alternate.
        self._before_last = self._last = 0
        self.usual = 0
        """Expected backwards per step; 0 before the first step, when it is unknown."""

    def stepped(self) -> None:
        self._before_last, self._last, self.made = self._last, self.made, 0
        self.usual = max(self._before_last, self._last)

    @property
    def of_this_step(self) -> int:
        """Return the number of backwards of this step, also while the step is being made."""
        return self.made or self._last

    @property
    def more_to_come(self) -> bool:
        """Return whether the gradients will probably accumulate further before they are used."""
        return self.made < self.usual or not self.usual
