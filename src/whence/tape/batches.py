"""Batches that loaders delivered, and the samples of each."""

from __future__ import annotations

import multiprocessing
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, IterableDataset

from whence.source.sites import Site, is_library
from whence.source.spots import Spot
from whence.tape.indices import listed
from whence.tape.randomness import Draws, Kept
from whence.weak_table import WeakTable

MOST_FIELDS = 64
ONLY_TENSORS = frozenset({Tensor})
# Mapped over the tensors of every batch: a loop in C.
form_of = attrgetter("is_nested", "shape", "dtype")
LEAVES = frozenset(
    {torch.Tensor, torch.nn.Parameter, int, float, bool, complex, str, bytes, type(None)}
)


class Form:
    """Shapes and types of recurring data: a loader's batches, a model's inputs."""

    __slots__ = ("_flat", "_forms", "paths", "signature")

    def __init__(self) -> None:
        self.signature: tuple[Any, ...] = ()
        self._flat: Any = None
        """The type of the last data, if that was a plain list or tuple of tensors only."""
        self._forms: list[Any] = []
        """The form of each of these tensors."""
        self.paths: tuple[str, ...] = ()
        """The path of each of these tensors."""

    def is_like_last(self, data: Any) -> bool:
        """Return whether data has the same form as the data before it.

        This is the fast path for nearly all data: a flat sequence of tensors.
        """
        if type(data) is not self._flat or not ONLY_TENSORS.issuperset(map(type, data)):
            return False
        try:
            return list(map(form_of, data)) == self._forms
        except RuntimeError:
            # A nested tensor has no shape.
            return False

    def learn(self, data: Any) -> None:
        leaves = leaves_of(data)
        signature = signature_of(leaves)
        if signature != self.signature:
            self.signature = signature
        flat = type(data) in (list, tuple) and len(data) == len(signature) == len(leaves)
        self._flat = type(data) if flat and all(map(_is_plain, data)) else None
        self._forms = list(map(form_of, data)) if self._flat is not None else []
        self.paths = tuple(path for path, leaf in leaves if isinstance(leaf, Tensor))

    def tensors(self, data: Any) -> Sequence[Tensor]:
        """Return the tensors of the data that was inspected last."""
        return (
            data
            if self._flat is not None
            else [each for _, each in leaves_of(data) if isinstance(each, Tensor)]
        )


class LoaderInfo:
    """A DataLoader: where it was built, its dataset and sampler, and what it has delivered.

    Keeps neither the loader nor its dataset alive.
    """

    def __init__(self, loader: Any, stack: tuple[Site, ...]) -> None:
        self.stack = stack
        self.place: Spot | None = None
        """Where the loader is, according to another source."""
        self.batch_size: int | None = getattr(loader, "batch_size", None)
        self.drop_last: bool = bool(getattr(loader, "drop_last", False))
        self.workers: int = getattr(loader, "num_workers", 0)
        self.keeps_workers = bool(self.workers and getattr(loader, "persistent_workers", False))
        self.collate: Any = getattr(loader, "collate_fn", None)
        self.batched = getattr(loader, "batch_sampler", None) is not None
        """Whether its sampler yields batches of indices. If not, each dataset item is a batch."""
        self.gives_fresh_lists = type(getattr(loader, "batch_sampler", None)) is BatchSampler
        """Whether each batch's indices are a fresh list that nothing else uses."""
        self.batches = 0
        self.form = Form()
        """The form of its last batch."""
        self.noted: tuple[Any, ...] | None = None
        """The form of the last batch that was reported to the watch."""
        self.is_known = False
        """Whether several of its epochs have passed."""
        self.trained = False
        """Whether backward was called while one of its batches was the last to arrive."""
        self.worker_init: Any = getattr(loader, "worker_init_fn", None)
        self.seed = 0
        """The base seed of its workers in the last epoch."""
        self.copies = bool(self.workers) and _start_method(loader) != "fork"
        """Whether its workers receive a pickled copy of the dataset."""
        self.is_iterable = isinstance(getattr(loader, "dataset", None), IterableDataset)
        self.kind = type(getattr(loader, "dataset", None))
        """The class of its dataset, which may be gone."""
        self.sampler = _weakly(getattr(loader, "sampler", None))
        self.sampler_kind = _kind_of_order(loader)
        """The class of the object that decides the order, which may be gone."""
        self.batch_sampler = _weakly(getattr(loader, "batch_sampler", None))
        self._dataset = _weakly(getattr(loader, "dataset", None))
        self.draws = Draws(self._dataset) if not self.workers and not self.is_iterable else None
        """The random streams of its samples, if they are made in this process."""

    @property
    def built(self) -> Spot | None:
        """Return where it was built, if known."""
        return Spot.of_site(self.stack[0]) if self.stack else self.place

    @property
    def dataset(self) -> Any:
        return self._dataset()

    def collated(self, samples: list[Any]) -> Any:
        """Return a batch of samples that were fetched again.

        Runs the program's code, so only ever in a child process.
        """
        return self.collate(samples if self.batched or len(samples) != 1 else samples[0])

    def length(self) -> int | None:
        try:
            return len(self.dataset)
        except TypeError:
            return None


def _kind_of_order(loader: Any) -> type:
    """Return the class of the first batch sampler or sampler that is not a library's."""
    batches = getattr(loader, "batch_sampler", None)
    makers = (batches, getattr(batches, "sampler", None), getattr(loader, "sampler", None))
    return next((kind for kind in map(type, makers) if not _is_of_library(kind)), type(makers[-1]))


def _is_of_library(kind: type) -> bool:
    filename = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return kind.__module__ == "builtins" or (filename is not None and is_library(filename))


def _start_method(loader: Any) -> str:
    """Return how worker processes are started.

    Asking multiprocessing for the default in the usual way would fix it for the program.
    """
    context = getattr(loader, "multiprocessing_context", None)
    if context is not None:
        return str(context.get_start_method())
    return (
        multiprocessing.get_start_method(allow_none=True)
        or multiprocessing.get_all_start_methods()[0]
    )


def _weakly(thing: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(thing)
    except TypeError:
        # A plain list or tuple cannot be weakly referenced.
        return lambda: thing


@dataclass(eq=False, slots=True)
class Batch:
    """One delivered batch."""

    info: LoaderInfo
    number: int
    kept: Sequence[Any] | None
    """Its indices, as they were stored."""
    signature: tuple[Any, ...] = ()
    worker: int | None = None
    """The number of the worker process that made it."""
    streams: Kept = ()
    """The states of the random streams that it was made with."""

    @property
    def indices(self) -> list[Any] | None:
        """The dataset indices of its samples, or None if the sampler yields none."""
        return listed(self.kept, self.info.batched)


@dataclass(frozen=True, slots=True)
class Lost:
    """A worker that has died, or that the program waits for without result."""

    number: int
    pid: int | None
    exit_code: int | None
    is_alive: bool
    indices: list[Any]
    """The indices that it was asked for and did not deliver."""


@dataclass(frozen=True, slots=True)
class BatchLeaf:
    """A tensor of a batch and its path, as the user would write it: `[0]`, `["image"]`."""

    batch: Batch
    path: str


def leaves_of(tree: Any, path: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of a batch or a sample with their paths."""
    found: list[tuple[str, Any]] = []
    _gather(tree, path, found)
    return found


def _gather(tree: Any, path: str, found: list[tuple[str, Any]]) -> None:
    """Collect leaves.

    This runs for every batch of every loader, so frequent types are checked first.
    """
    kind = type(tree)
    if kind in LEAVES:
        found.append((path, tree))
    elif (kind is list or kind is tuple) and len(tree) < MOST_FIELDS:
        for number, each in enumerate(tree):
            place = f"{path}[{number}]"
            if type(each) in LEAVES:
                found.append((place, each))
            else:
                _gather(each, place, found)
    elif kind is dict or isinstance(tree, Mapping):
        for key in tree:
            _gather(tree[key], f"{path}[{key!r}]", found)
    elif isinstance(tree, tuple) and hasattr(kind, "_fields"):
        for name, each in zip(kind._fields, tree, strict=True):
            _gather(each, f"{path}.{name}", found)
    elif isinstance(tree, tuple | list) and len(tree) < MOST_FIELDS:
        for number, each in enumerate(tree):
            _gather(each, f"{path}[{number}]", found)
    elif hasattr(kind, "__dataclass_fields__"):
        for field in fields(tree):
            _gather(getattr(tree, field.name, None), f"{path}.{field.name}", found)
    else:
        found.append((path, tree))


def signature_of(leaves: Iterable[tuple[str, Any]]) -> tuple[Any, ...]:
    """Return the shapes and types of a batch's leaves.

    They decide whether an earlier tape can represent the batch.
    """
    return tuple([(path, _shape_of(leaf), leaf.dtype) for path, leaf in leaves if _has_form(leaf)])


def _is_plain(leaf: Any) -> bool:
    return type(leaf) is torch.Tensor and not leaf.is_nested


def _shape_of(leaf: Any) -> Any:
    """Return a leaf's shape; nested tensors have none."""
    return () if isinstance(leaf, torch.Tensor) and leaf.is_nested else leaf.shape


def _has_form(leaf: Any) -> bool:
    """Return whether a leaf is a tensor or a NumPy array, without importing NumPy."""
    return isinstance(leaf, torch.Tensor) or (
        type(leaf).__module__ == "numpy" and hasattr(leaf, "shape")
    )


class LoaderBook:
    """All loaders seen, and the batch in use."""

    def __init__(self) -> None:
        self._known: WeakTable[Any, LoaderInfo] = WeakTable()
        self.current: Batch | None = None
        self.batch_sizes: set[int] = set()
        """Batch sizes of all loaders, including those that are gone."""

    def note_construction(self, loader: Any, stack: tuple[Site, ...]) -> None:
        info = self._known[loader] = LoaderInfo(loader, stack)
        if info.batch_size:
            self.batch_sizes.add(info.batch_size)

    def info_of(self, loader: Any) -> LoaderInfo:
        if loader not in self._known:
            self._known[loader] = LoaderInfo(loader, ())
        return self._known[loader]

    def infos(self) -> list[LoaderInfo]:
        return self._known.values()

    def deliver(
        self,
        info: LoaderInfo,
        indices: Sequence[Any] | None,
        worker: int | None,
        streams: Kept,
        data: Any,
    ) -> Batch:
        if not info.form.is_like_last(data):
            info.form.learn(data)
        self.current = Batch(info, info.batches, indices, info.form.signature, worker, streams)
        info.batches += 1
        return self.current
