"""Looking at a program makes no warnings, and none of its own come twice."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_warnings() -> Iterator[None]:
    """No warnings. `catch_warnings` would make Python forget which ones it has shown, and show the program's again."""
    filters = warnings.filters
    warnings.filters = [("ignore", None, Warning, None, 0)]
    try:
        yield
    finally:
        warnings.filters = filters
