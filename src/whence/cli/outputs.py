"""Where a command writes to, looked at before it begins."""

from __future__ import annotations

import os
from pathlib import Path

from whence.config import UsageError


def json_path(given: str | None) -> Path | None:
    """The path behind --json; `-` is stdout."""
    if given is None or given == "-":
        return Path("-") if given else None
    path = Path(given)
    if path.is_dir() or not path.parent.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"cannot write --json {given}: expected a file in a folder that exists and can be written")
    return path.absolute()
