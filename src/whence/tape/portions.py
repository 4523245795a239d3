"""Gradients that are added up over several backwards before an optimizer uses them."""

from __future__ import annotations


class Portions:
    """How many backwards the program makes for a step, and how many it has made since the last."""

    def __init__(self) -> None:
        self.made = 0
        # Two, for the sake of programs with two optimizers that take turns.
        self._before_last = self._last = 0
        self.usual = 0
        """So many are expected before a step; 0 before the first step, when nobody knows."""

    def stepped(self) -> None:
        self._before_last, self._last, self.made = self._last, self.made, 0
        self.usual = max(self._before_last, self._last)

    @property
    def of_this_step(self) -> int:
        """Also while the step is being made."""
        return self.made or self._last

    @property
    def more_to_come(self) -> bool:
        """Whether the gradients are likely to be added to before they are used."""
        return self.made < self.usual or not self.usual
