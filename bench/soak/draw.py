"""Random choices along named axes, which can be fixed from outside."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence


class Draw:
    """A seeded source of choices that records its choice on each axis."""

    def __init__(self, seed: int, fixed: Mapping[str, Collection[str]] | None = None) -> None:
        self.random = random.Random(seed)
        self.fixed = fixed or {}
        self.axes: dict[str, str] = {}

    def axis(self, name: str, options: Sequence[str]) -> str:
        """Choose one option and record it; a fixed axis limits the options."""
        allowed = [each for each in options if each in self.fixed.get(name, options)]
        self.axes[name] = self.random.choice(allowed or list(options))
        return self.axes[name]

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def number(self, *options: int) -> int:
        return self.random.choice(options)
