"""The files that a program consists of."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from whence.source.sites import is_library


def program_files(also: Iterable[str] = ()) -> list[str]:
    """Return the program's own imported files, including the main one.

    Also returns the files in `also`, which ran by other means.
    """
    found = (
        vars(module).get("__file__")
        for module in list(sys.modules.values())
        if hasattr(module, "__dict__")
    )
    files = {each for each in (*found, *also) if isinstance(each, str) and each.endswith(".py")}
    return sorted(each for each in files if not is_library(each))
