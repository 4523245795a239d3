"""Labels that are resized as pictures are: between two classes there are mixtures, and these are labels of other classes.

Runs the program's code: only ever in a child process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from whence.source.sites import Site, user_stack
from whence.source.spots import Spot
from whence.tape.batches import leaves_of

MOST_CLASSES = 64
ROUNDINGS = (torch.Tensor.round, torch.Tensor.trunc, torch.Tensor.floor, torch.Tensor.ceil)


@dataclass(frozen=True, slots=True)
class Blend:
    """Plain data: it comes from a child process."""

    spot: Spot | None
    path: str
    index: Any
    before: list[int]
    invented: list[int]
    manner: str


@dataclass(frozen=True, slots=True)
class _Resize:
    stack: tuple[Site, ...]
    given: torch.Tensor
    result: torch.Tensor
    manner: str


class _Resizes(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Resize] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") == functional.interpolate.__name__:
            given = args[0] if args else (kwargs or {})["input"]
            manner = (kwargs or {}).get("mode", args[3] if len(args) > 3 else "nearest")
            self.found.append(
                _Resize(
                    tuple(user_stack(sys._getframe(1))), given.clone(), result.clone(), str(manner)
                )
            )
        return result


def blend_of(fetch: Callable[[Any], Any], indices: list[Any]) -> Blend | None:
    """The first label of some samples that is the rounded mixture of others, and none of them."""
    for index in indices:
        resizes = _Resizes()
        with resizes:
            sample = fetch(index)
        for path, leaf in leaves_of(sample):
            for each in resizes.found if _is_label(leaf) else ():
                if _is_whole(each.given) and _is_rounded(leaf, each.result):
                    before = torch.unique(each.given).long().tolist()
                    invented = sorted(set(torch.unique(leaf).tolist()) - set(before))
                    if invented:
                        spot = next(_places(each, resizes.found), None)
                        return Blend(spot, path, index, before, invented, each.manner)
    return None


def _is_label(leaf: Any) -> bool:
    return (
        isinstance(leaf, torch.Tensor)
        and leaf.dtype in (torch.int64, torch.int32)
        and leaf.dim() > 0
    )


def _is_whole(given: torch.Tensor) -> bool:
    values = torch.unique(given.detach())
    return len(values) <= MOST_CLASSES and bool((values == values.round()).all())


def _is_rounded(leaf: torch.Tensor, result: torch.Tensor) -> bool:
    if leaf.numel() != result.numel() or not result.is_floating_point():
        return False
    return any(
        torch.equal(leaf.reshape(-1), way(result).reshape(-1).to(leaf.dtype)) for way in ROUNDINGS
    )


def _places(resize: _Resize, others: list[_Resize]) -> Iterator[Spot]:
    """The line that resizes; but one that resizes pictures, too, is right, and who gives it labels is not."""
    right = {
        (site.filename, site.f_lineno)
        for each in others
        if not _is_whole(each.given)
        for site in each.stack
    }
    for site in resize.stack:
        if (site.filename, site.f_lineno) not in right and (spot := Spot.of_site(site)) is not None:
            yield spot
