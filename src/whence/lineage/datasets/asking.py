"""To compare what a dataset gave, and to see which line changes something. Only ever in a child process."""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from whence.lineage.looking import is_array
from whence.source.sites import is_library
from whence.source.spots import Spot
from whence.source.text import statement_at
from whence.tape.batches import leaves_of

MOST_EVENTS = 20_000
MOST_ELEMENTS = 4_000_000


def random_states() -> tuple[Any, ...]:
    """Where the random streams of the whole program are."""
    numpy = sys.modules.get("numpy")
    return (
        random.getstate(),
        torch.get_rng_state(),
        numpy.random.get_state() if numpy is not None else None,
    )


def set_random_states(states: tuple[Any, ...]) -> None:
    random.setstate(states[0])
    torch.set_rng_state(states[1])
    if states[2] is not None:
        sys.modules["numpy"].random.set_state(states[2])


def kept_leaves(sample: Any) -> list[tuple[str, Any]]:
    """As they are now: what is done to the sample later on does not change them."""
    return [(path, leaf.clone() if isinstance(leaf, torch.Tensor) else leaf.copy() if is_array(leaf) else leaf)
            for path, leaf in leaves_of(sample)]  # fmt: skip


def alike(one: Any, other: Any) -> bool:
    return [(path, print_of(leaf)) for path, leaf in one] == [
        (path, print_of(leaf)) for path, leaf in other
    ]


def print_of(thing: Any) -> Any:
    """A few numbers that change when a thing does."""
    if isinstance(thing, torch.Tensor):
        if thing.is_meta or thing.is_sparse or thing.numel() == 0:
            return tuple(thing.shape)
        flat = thing.detach().reshape(-1)[:MOST_ELEMENTS].double().nan_to_num(0.123, 4.56, 7.89)
        return (
            tuple(thing.shape),
            float(flat.sum()),
            float((flat * torch.arange(len(flat)).cos()).sum()),
        )
    if is_array(thing):
        if thing.dtype.kind in "iufb":
            return print_of(torch.as_tensor(thing.astype("float64")))
        return repr(thing)[:2000]
    if isinstance(thing, list | tuple):
        return len(thing), tuple(print_of(each) for each in thing[:64])
    if isinstance(thing, int | float | str | bool | bytes | type(None)):
        return repr(thing)
    return type(thing).__name__


def streams() -> Any:
    """How far the random streams of the whole program have moved on."""
    numpy = sys.modules.get("numpy")
    return (
        print_of(torch.get_rng_state()),
        hash(random.getstate()),
        repr(numpy.random.get_state()[1:3]) if numpy is not None else None,
    )


def line_of(
    ask: Callable[[], Any], state: Callable[[], Any], outermost: bool = False
) -> Spot | None:
    """The line of the program after which a state is another; `outermost`, of the first function that is called alone."""
    last = [state()]
    where: dict[FrameType, int] = {}
    found: list[tuple[FrameType, int]] = []
    events = [0]

    def step(frame: FrameType, _event: str, _value: Any) -> Any:
        events[0] += 1
        if found or events[0] > MOST_EVENTS:
            return None
        now = state()
        if now != last[0]:
            found.append((frame, where.get(frame, frame.f_lineno)))
            return None
        where[frame] = frame.f_lineno
        return step

    def enter(frame: FrameType, event: str, value: Any) -> Any:
        if is_library(frame.f_code.co_filename) or found or (outermost and where):
            return None
        return step(frame, event, value)

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        ask()
    finally:
        sys.settrace(before)
    return _spot(*found[0]) if found else None


def _spot(frame: FrameType, line: int) -> Spot | None:
    statement = statement_at(frame.f_code.co_filename, line)
    value = getattr(statement, "value", None)
    into = isinstance(statement, ast.Assign) and any(
        isinstance(each, ast.Subscript) for each in statement.targets
    )
    node = value if isinstance(value, ast.expr) and not into else statement
    return Spot.of_node(frame.f_code.co_filename, node) if node is not None else None
