"""What loaders delivered: which batch, made of which samples."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from whence.source.sites import Site


@dataclass(eq=False, slots=True)
class LoaderInfo:
    """A DataLoader: where it was built and what it has delivered. Does not keep it alive."""

    ref: weakref.ref[Any]
    stack: tuple[Site, ...]
    batches: int = 0
    sizes: list[int] = field(default_factory=list)

    @property
    def loader(self) -> Any:
        return self.ref()


@dataclass(eq=False, slots=True)
class Batch:
    """One delivery. `indices` are the dataset indices of its samples, or None where the sampler gives none."""

    info: LoaderInfo
    number: int
    indices: list[Any] | None
    signature: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchLeaf:
    """A tensor of a batch and its place in it, as the user would write it: `[0]`, `["image"]`."""

    batch: Batch
    path: str


def leaves_of(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of a batch or a sample with their paths."""
    if isinstance(tree, dict):
        for key, each in tree.items():
            yield from leaves_of(each, f"{path}[{key!r}]")
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for name, each in zip(tree._fields, tree, strict=True):
            yield from leaves_of(each, f"{path}.{name}")
    elif isinstance(tree, tuple | list) and len(tree) < 64:
        for number, each in enumerate(tree):
            yield from leaves_of(each, f"{path}[{number}]")
    else:
        yield path, tree


def signature_of(tree: Any) -> tuple[Any, ...]:
    """Shapes and types of a batch: what decides whether an earlier tape can stand for it."""
    return tuple(
        (path, tuple(leaf.shape), leaf.dtype) for path, leaf in leaves_of(tree) if isinstance(leaf, torch.Tensor)
    )


class LoaderBook:
    """All loaders seen, and the batch that is being worked on."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Any, LoaderInfo] = weakref.WeakKeyDictionary()
        self.current: Batch | None = None

    def note_construction(self, loader: Any, stack: tuple[Site, ...]) -> None:
        self._known[loader] = LoaderInfo(weakref.ref(loader), stack)

    def info_of(self, loader: Any) -> LoaderInfo:
        if loader not in self._known:
            self._known[loader] = LoaderInfo(weakref.ref(loader), ())
        return self._known[loader]

    def deliver(self, loader: Any, indices: list[Any] | None, data: Any) -> Batch:
        info = self.info_of(loader)
        batch = Batch(info, info.batches, indices, signature_of(data))
        info.batches += 1
        if indices is not None:
            info.sizes = [*info.sizes[-1:], len(indices)] if info.sizes else [len(indices)]
        self.current = batch
        return batch
