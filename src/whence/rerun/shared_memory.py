"""Memory shared between a forked child and its parent: writable file mappings and shared memory.

Writes of the child to it would change the program's data. In the child it is replaced by a copy at
the same address.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

MAPS = "/proc/self/maps"
MAP_FIXED = 0x10
MOST_BYTES = 1 << 30
FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True, slots=True)
class _Mapping:
    start: int
    size: int
    offset: int
    path: str

    @property
    def is_file(self) -> bool:
        return os.path.isfile(self.path)

    @property
    def is_device(self) -> bool:
        return self.path.startswith("/dev/") and not self.path.startswith(
            ("/dev/shm/", "/dev/zero")
        )


def keep_to_itself() -> None:
    """Make all of this process's writes private from now on.

    Raises OSError if that is not possible.
    """
    if not os.path.exists(MAPS):
        return
    shared = [each for each in _shared() if not each.is_device]
    if sum(each.size for each in shared if not each.is_file) > MOST_BYTES:
        raise OSError("too much shared memory to copy")
    for each in shared:
        if each.is_file:
            _map_privately(each)
        else:
            held = ctypes.string_at(each.start, each.size)
            _map(each, mmap.MAP_ANONYMOUS, -1)
            ctypes.memmove(each.start, held, each.size)


def _shared() -> Iterator[_Mapping]:
    """Return the writable shared mappings."""
    with open(MAPS, encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines.read().splitlines():
            place, rights, offset, _, _, *path = line.split(maxsplit=5)
            if rights.startswith("rw") and rights.endswith("s"):
                start, end = (int(each, 16) for each in place.split("-"))
                yield _Mapping(start, end - start, int(offset, 16), path[0] if path else "")


def _map_privately(mapping: _Mapping) -> None:
    """Map the file's pages as copy-on-write."""
    file = os.open(mapping.path, os.O_RDONLY)
    try:
        _map(mapping, 0, file)
    finally:
        os.close(file)


def _map(mapping: _Mapping, flags: int, file: int) -> None:
    place = ctypes.CDLL(None, use_errno=True).mmap
    place.restype = ctypes.c_void_p
    place.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    flags |= mmap.MAP_PRIVATE | MAP_FIXED
    offset = mapping.offset if file >= 0 else 0
    if (
        place(mapping.start, mapping.size, mmap.PROT_READ | mmap.PROT_WRITE, flags, file, offset)
        == FAILED
    ):
        raise OSError(ctypes.get_errno(), "shared memory cannot be copied")
