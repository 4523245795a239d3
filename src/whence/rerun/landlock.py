"""Have the kernel refuse all file writes and new TCP connections in this process.

Python's audit events show only what goes through Python, but `torch.save`, HDF5, Arrow and
safetensors write through C++ or Rust. Linux's Landlock refuses these too, and cannot be switched
off again. The constants are from linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import os
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls; their numbers are the same on every architecture."""
VERSION = 1
PATH_BENEATH = 1
NO_NEW_PRIVILEGES = 38
WRITE_FILE = 1 << 1
CHANGES = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
"""Writing a file, and removing or making files and folders of any kind."""
REFER, TRUNCATE = 1 << 13, 1 << 14
CONNECTIONS = 0b11
"""TCP: bind and connect."""
DEVICES = "/dev"
"""Stays writable: /dev/null, and /dev/shm for memory that the child shares with its own threads."""


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64))


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def refuse_writes() -> bool:
    """Restrict this process, only ever a child; return False if the kernel has no Landlock."""
    if not sys.platform.startswith("linux"):
        return False
    kernel = ctypes.CDLL(None, use_errno=True)
    version = kernel.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), VERSION)
    if version < 1:
        return False
    files = CHANGES | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    rules = _Ruleset(files, CONNECTIONS if version >= 4 else 0)
    size = ctypes.sizeof(rules) if version >= 4 else ctypes.sizeof(ctypes.c_uint64)
    ruleset = kernel.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0)
    if ruleset < 0:
        return False
    try:
        folder = os.open(DEVICES, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = _PathBeneath(files, folder)
            kernel.syscall(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(folder)
        kernel.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
        return bool(kernel.syscall(RESTRICT_SELF, ruleset, 0) == 0)
    finally:
        os.close(ruleset)
