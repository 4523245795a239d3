"""Whence, a debugger for training: what broke, where it began, why, and how to fix it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.version import VERSION as __version__

if TYPE_CHECKING:
    from whence.checking.check import check
    from whence.checking.result import CheckFailed, CheckReport
    from whence.data.contract import Contract
    from whence.finding import Finding, Report
    from whence.survey import DataReport, check_data
    from whence.watching.watch import Watch, watch

__all__ = [
    "CheckFailed",
    "CheckReport",
    "Contract",
    "DataReport",
    "Finding",
    "Report",
    "Watch",
    "__version__",
    "check",
    "check_data",
    "watch",
]

_HOMES = {
    "CheckFailed": "checking.result",
    "CheckReport": "checking.result",
    "Contract": "data.contract",
    "DataReport": "survey",
    "Finding": "finding",
    "Report": "finding",
    "Watch": "watching.watch",
    "check": "checking.check",
    "check_data": "survey",
    "watch": "watching.watch",
}


def __getattr__(name: str) -> Any:
    # Import lazily: `import whence` is nearly free until it is used.
    if name not in _HOMES:
        raise AttributeError(f"module 'whence' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"whence.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
