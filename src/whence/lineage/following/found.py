"""What a search comes to."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from whence.finding import Hop
from whence.lineage.grounds import Ground
from whence.source.spots import Spot

PASSED_ON = "passed on here"


@dataclass(frozen=True, slots=True)
class Found:
    spot: Spot | None = None
    hops: tuple[Hop, ...] = ()
    made: tuple[ast.expr, Ground] | None = None
    """The expression that decided the property by itself, and where it stands."""
    column: str = ""
    """The name of the column that it was found in, where the way led through a table."""


class Refuted(Exception):
    """What was followed without values cannot have the property: the one who followed it was the birth."""
