"""Output of the commands: paths checked up front, one-line messages on stderr."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from whence.config import UsageError
from whence.report.escapes import escaped, escaped_line


class Parser(argparse.ArgumentParser):
    """An argument parser whose messages escape control characters."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **settings)

    def _print_message(self, message: str, file: Any = None) -> None:
        super()._print_message(escaped(message), file)


def complain(text: str) -> None:
    """Print the text on stderr as one line."""
    print(f"whence: {escaped_line(text)}", file=sys.stderr)


def json_path(given: str | None) -> Path | None:
    """Check the path given with --json; `-` is stdout."""
    if given is None or given == "-":
        return Path("-") if given else None
    path = Path(given)
    if not _can_be_written(path):
        raise UsageError(
            f"cannot write --json {given}: expected a file in an existing, writable folder"
        )
    return path.absolute()


def _can_be_written(path: Path) -> bool:
    try:
        if path.is_dir() or not path.parent.is_dir():
            return False
        return os.access(path if path.exists() else path.parent, os.W_OK)
    except (OSError, ValueError):
        return False
