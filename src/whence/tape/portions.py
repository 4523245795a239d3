"""Gradients that are added up over several backwards before an optimizer uses them."""

from __future__ import annotations


class Portions:
    """How many backwards the program makes for a step, and how many it has made since the last."""

    def __init__(self) -> None:
        self.made = 0
        # Two, for the sake of programs with two optimizers that take turns.
        self._before_last = self._last = 0

    def stepped(self) -> None:
        self._before_last, self._last, self.made = self._last, self.made, 0

    @property
    def of_this_step(self) -> int:
        """Also while the step is being made."""
        return self.made or self._last

    @property
    def more_to_come(self) -> bool:
        """Whether the gradients are likely to be added to before they are used. Before the first step nobody knows."""
        made = self.made
        return made < self._last or made < self._before_last or not (self._last or self._before_last)
