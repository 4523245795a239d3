"""Make the process paranoid: Python imports this at start if this folder is on PYTHONPATH."""

import os
import types


def _load() -> types.ModuleType:
    """Load the harness under a file name that Whence does not take for program code."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "harness.py")
    module = types.ModuleType("paranoid_harness")
    with open(path, encoding="utf-8") as file:
        exec(compile(file.read(), "<paranoid harness>", "exec"), module.__dict__)
    return module


if os.environ.get("WHENCE_PARANOID") and os.environ.get("WHENCE_PARANOID_FILE"):
    _load().Harness(os.environ["WHENCE_PARANOID_FILE"]).install()
