"""What hangs on a dataset, and the random generators among it."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import torch

from whence.lineage.datasets.asking import print_of
from whence.lineage.looking import is_array
from whence.source.classes import attribute_of
from whence.source.sites import is_library
from whence.source.spots import Spot

MOST_THINGS = 400
DEEPEST = 4


def reachable(*roots: tuple[str, Any]) -> Iterator[tuple[str, Any]]:
    """What hangs on an object: its attributes and theirs, and the elements of short lists."""
    pending = [(name, root, 0) for name, root in roots if root is not None]
    seen: set[int] = set()
    count = 0
    while pending and count < MOST_THINGS:
        name, thing, depth = pending.pop(0)
        if id(thing) in seen:
            continue
        seen.add(id(thing))
        count += 1
        yield name, thing
        if (
            depth >= DEEPEST
            or isinstance(thing, torch.Tensor | str | bytes | type)
            or is_array(thing)
        ):
            continue
        if isinstance(thing, list | tuple):
            if len(thing) <= 16:
                pending += [
                    (f"{name}[{number}]", each, depth + 1) for number, each in enumerate(thing)
                ]
        elif isinstance(thing, dict):
            pending += [
                (f"{name}[{key!r}]", each, depth + 1) for key, each in list(thing.items())[:16]
            ]
        elif hasattr(thing, "__dict__") and not callable(getattr(thing, "__module__", None)):
            own = not is_library(
                getattr(sys.modules.get(type(thing).__module__), "__file__", None) or "<string>"
            )
            if own or type(thing).__module__.startswith("torch.utils.data") or depth == 0:
                pending += [
                    (f"{name}.{key}", each, depth + 1)
                    for key, each in list(vars(thing).items())[:64]
                ]


def attributes_in(*roots: tuple[str, Any]) -> list[tuple[Any, dict[str, Any]]]:
    """The attributes of what hangs on some objects, as they are now."""
    return [
        (thing, dict(vars(thing)))
        for _, thing in reachable(*roots)
        if hasattr(thing, "__dict__") and not isinstance(thing, type)
    ]


def put_back(attributes: list[tuple[Any, dict[str, Any]]]) -> None:
    for thing, before in attributes:
        vars(thing).clear()
        vars(thing).update(before)


def generators_in(*roots: tuple[str, Any]) -> Iterator[tuple[str, Any]]:
    """Random generators that hang on some objects, and how to get to them."""
    for name, thing in reachable(*roots):
        kind = f"{type(thing).__module__}.{type(thing).__name__}"
        if isinstance(thing, random.Random | torch.Generator) or kind in (
            "numpy.random._generator.Generator",
            "numpy.random.mtrand.RandomState",
        ):
            yield name, thing


def made_at(name: str, *roots: tuple[str, Any]) -> Spot | None:
    """Where the class of the object that keeps a generator puts it there."""
    owner, _, attribute = name.rpartition(".")
    held = next((thing for each, thing in reachable(*roots) if each == owner), None)
    return (
        attribute_of(type(held), attribute)
        if held is not None and attribute.isidentifier()
        else None
    )


def state_of(generator: Any) -> Any:
    """Where a generator stands."""
    if isinstance(generator, random.Random):
        return hash(generator.getstate())
    if isinstance(generator, torch.Generator):
        return print_of(generator.get_state())
    bits = getattr(generator, "bit_generator", None)
    return repr(bits.state if bits is not None else generator.get_state())
