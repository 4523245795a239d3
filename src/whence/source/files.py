"""The files that a program consists of."""

from __future__ import annotations

import sys

from whence.source.sites import is_library


def program_files() -> list[str]:
    """The program's own files that have been imported, its main one included."""
    found = (vars(module).get("__file__") for module in list(sys.modules.values()) if hasattr(module, "__dict__"))
    files = {each for each in found if isinstance(each, str) and each.endswith(".py")}
    return sorted(each for each in files if not is_library(each))
