"""The device policy: how to query a device without making the program wait for it.

Reading a value from an accelerator waits until it has been computed. The program runs ahead of the
device, and such a wait destroys that lead. So in steady state nothing is read from an accelerator:
values are copied to the host without blocking, and read when an event reports their arrival
(`tape/readings.py`).

Everything here uses PyTorch's device-generic API (`torch.accelerator`, `torch.get_device_module`)
if this version has it, so that CUDA, ROCm, XPU, MPS and out-of-tree backends are treated alike.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import torch
from torch.utils import backend_registration

HOST_TYPES = frozenset({"cpu", "meta"})
SMALL_LOOK = 64 * 2**20
"""Memory that a check may use on a device that does not report its free memory."""


class Event(Protocol):
    """A mark in the queue of a device."""

    def record(self, stream: Any = None, /) -> object: ...
    def query(self) -> bool: ...


@dataclass(slots=True)
class StandIn:
    """For tests: treat CPU tensors as those of an accelerator `delay` steps behind the program."""

    delay: int = 1
    recorded: int = 0
    """Events so far: the stand-in's clock."""


stand_in: StandIn | None = None
"""Set by tests only."""


# reading values


def reads_are_free(device: torch.device) -> bool:
    """Return whether a value on this device can be read without waiting for the device."""
    return device.type in HOST_TYPES and stand_in is None


class _StandInEvent:
    """An event that completes some steps later."""

    def __init__(self, clock: StandIn) -> None:
        self._clock = clock
        self._number = 0

    def record(self, _stream: Any = None) -> None:
        self._clock.recorded += 1
        self._number = self._clock.recorded

    def query(self) -> bool:
        return self._clock.recorded - self._number >= self._clock.delay


class _NoEvent:
    """For a backend without events. The copy is blocking there, so the value has arrived."""

    def record(self, _stream: Any = None) -> None: ...

    def query(self) -> bool:
        return True


def has_events(device: torch.device) -> bool:
    return stand_in is not None or hasattr(module_of(device), "Event")


def event_on(device: torch.device) -> Event:
    if stand_in is not None:
        return _StandInEvent(stand_in)
    made = getattr(module_of(device), "Event", _NoEvent)
    event: Event = made()
    return event


def record_event(event: Event, device: torch.device) -> None:
    """Mark the current end of the device's queue."""
    stream_of = getattr(module_of(device), "current_stream", None) if stand_in is None else None
    if stream_of is not None and device.type != "mps":
        event.record(stream_of(device))
    else:
        event.record()


def host_memory(rows: int, columns: int) -> torch.Tensor:
    """Return memory that a device can copy to asynchronously (pinned), if available."""
    if stand_in is None:
        try:
            return torch.zeros(rows, columns, dtype=torch.float32, device="cpu", pin_memory=True)
        except (RuntimeError, NotImplementedError):
            pass
    return torch.zeros(rows, columns, dtype=torch.float32, device="cpu")


# which device there is


_modules: dict[str, Any] = {}


def module_of(device: torch.device | str) -> Any:
    """Return PyTorch's module for a device type: `torch.cuda` for cuda. None if it has none."""
    kind = device if isinstance(device, str) else device.type
    known = _modules.get(kind)
    if known is None:
        known = getattr(torch, kind, None)
        if hasattr(torch, "get_device_module"):
            with contextlib.suppress(RuntimeError):
                known = torch.get_device_module(kind)
        if known is not None:
            _modules[kind] = known
    return known


def _built() -> tuple[str, ...]:
    """Return the accelerator types that this PyTorch was built for.

    `torch.accelerator` might call a driver, which breaks forks.
    """
    found = []
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        found.append("cuda")
    if torch.backends.mps.is_built():
        found.append("mps")
    compiled = (
        getattr(getattr(torch, each, None), "_is_compiled", None) for each in ("xpu", "mtia")
    )
    return (
        *found,
        *(
            name
            for name, ask in zip(("xpu", "mtia"), compiled, strict=True)
            if ask is not None and ask()
        ),
    )


BUILT = _built()
_known = vars(torch)


def kinds() -> Sequence[str]:
    """Return the accelerator types that a program can use.

    These include those that a package registered when it was imported.
    """
    extra = getattr(backend_registration, "_privateuse1_backend_name", None)
    if extra not in _known and "hpu" not in _known:
        return BUILT
    return [*BUILT, *(each for each in ("hpu", extra) if each in _known)]


def used_module() -> Any:
    """Return PyTorch's module for the accelerator in use, or None. Does not initialize it."""
    for kind in kinds():
        module = module_of(kind)
        if module is not None and _is_initialized(module):
            return module
    return None


def _is_initialized(module: Any) -> bool:
    if hasattr(module, "is_initialized"):
        return bool(module.is_initialized())
    if module is getattr(torch, "mps", None) and not torch.backends.mps.is_available():
        return False
    allocated = getattr(
        module, "current_allocated_memory", getattr(module, "memory_allocated", None)
    )
    return allocated is None or allocated() > 0


def is_in_use() -> bool:
    """Return whether the program uses an accelerator. Such a process must not be forked."""
    return used_module() is not None


def is_capturing() -> bool:
    """Return whether the current stream is captured into a graph (CUDA graphs).

    No operation may be added then.
    """
    module = used_module()
    asks = getattr(module, "is_current_stream_capturing", None) if module is not None else None
    return asks is not None and bool(asks())


# random numbers


class RandomState(NamedTuple):
    """The random state of the CPU and of each device of the accelerator."""

    cpu: torch.Tensor
    others: tuple[torch.Tensor, ...]


AnyRandomState = torch.Tensor | RandomState
"""A plain tensor if there is only the CPU's state."""


def random_state() -> AnyRandomState:
    """Return the states of PyTorch's random streams.

    They are in host memory, so reading them waits for no device.
    """
    cpu, module = torch.default_generator.get_state(), used_module()
    if module is None:
        return cpu
    return RandomState(cpu, tuple(module.get_rng_state(*each) for each in _indices(module)))


def restore_random_state(state: AnyRandomState) -> None:
    if isinstance(state, torch.Tensor):
        torch.default_generator.set_state(state)
        return
    torch.default_generator.set_state(state.cpu)
    module = used_module()
    for each, other in zip(_indices(module), state.others, strict=False):
        module.set_rng_state(other, *each)


def _indices(module: Any) -> list[tuple[int, ...]]:
    """Return the arguments of `get_rng_state` for each device.

    MPS has one device, and takes no index.
    """
    if module is None or module is getattr(torch, "mps", None):
        return [()] if module is not None else []
    return [(each,) for each in range(module.device_count())]


# memory


def free_memory(device: torch.device) -> int | None:
    """Return the bytes that a device can still provide, PyTorch's cache included.

    None if the device does not report them.
    """
    module = module_of(device)
    info = getattr(module, "mem_get_info", None)
    if info is None and hasattr(torch, "accelerator"):
        info = getattr(torch.accelerator, "get_memory_info", None)
    try:
        if info is not None:
            kept = _asked(module, "memory_reserved", device) - _asked(
                module, "memory_allocated", device
            )
            return int(info(device)[0]) + max(kept, 0)
        if hasattr(module, "recommended_max_memory"):
            return int(module.recommended_max_memory()) - int(module.driver_allocated_memory())
    except (RuntimeError, NotImplementedError, AssertionError):
        pass
    return None


def has_room(device: torch.device, size: int) -> bool:
    """Return whether a check may use so many bytes of a device.

    Filling up a GPU would end the program.
    """
    if device.type in HOST_TYPES:
        return True
    free = free_memory(device)
    if free is not None:
        return free > 2 * size
    # Memory that the program once used, and has freed since, is available again.
    module = module_of(device)
    spare = _asked(module, "max_memory_allocated", device) - _asked(
        module, "memory_allocated", device
    )
    return size < max(spare, SMALL_LOOK)


def _asked(module: Any, name: str, device: torch.device) -> int:
    ask = getattr(module, name, None)
    try:
        return int(ask(device)) if ask is not None else 0
    except (RuntimeError, NotImplementedError, AssertionError, TypeError):
        return 0
