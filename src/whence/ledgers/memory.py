"""The ledger of memory: containers of tensors and graphs that grow, and by how many bytes."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch import nn

from whence.ledgers.reaching import Alias, elements, parts, reachable
from whence.ledgers.repeats import RepeatLedger
from whence.source.sites import Site
from whence.tape.tape import node_of, storage_of

RAW = "_raw_saved_"
UNKNOWN = object()
FEWEST = 6
SAMPLED = 24
MOST_NODES = 4_000
MOST_PASSED = 40_000
"""Nodes visited on the way to the oldest one: the graph of one step may have thousands."""
MOST_ALIASES = 8
COSTLY = 8 * 2**20


@dataclass(eq=False, slots=True)
class Holding:
    """A container of tensors, or one tensor with a graph, with its size at each check."""

    aliases: list[Alias]
    kind: str
    graph: bool
    shape: tuple[int, ...] = ()
    sizes: list[tuple[int, int, int]] = field(default_factory=list)
    """Step, length (or nodes), bytes."""
    oldest: int = -1
    """Autograd's number of the oldest node; constant if the graphs of all steps are connected."""
    ends: tuple[weakref.ref[torch.Tensor], ...] = ()
    """The first and the last tensor of a container."""
    outlived: bool = False
    """The weights of its graphs have changed since, so no backward can use them."""
    bounded: bool = False
    """It drops its oldest elements by itself."""
    of_tensors: bool = True
    """Its elements are tensors, not records that contain tensors."""

    @property
    def was_emptied(self) -> bool:
        """Neither of its end tensors is alive, so it is refilled for each epoch or episode."""
        return bool(self.ends) and all(each() is None for each in self.ends)

    @property
    def name(self) -> str:
        return self.aliases[0].name

    @property
    def grows(self) -> bool:
        """Whether it grew at each of the last three checks, in proportion to the steps."""
        if len(self.sizes) < 3 or self.bounded:
            return False
        (a, small, _), (b, middle, _), (c, large, _) = self.sizes[-3:]
        return middle - small >= 0.4 * (b - a) > 0 and large - middle >= 0.4 * (c - b) > 0

    @property
    def bytes(self) -> int:
        return self.sizes[-1][2]


class MemoryLedger:
    """Sizes of what the program's variables hold; nothing of it is kept alive."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Holding] = {}
        self.repeats = RepeatLedger()

    def holdings(self) -> list[Holding]:
        return list(self._known.values())

    def clear(self) -> None:
        self._known.clear()

    def look(
        self,
        step: int,
        frames: Iterable[FrameType],
        sites: Iterable[Site],
        datasets: Iterable[Any],
        extra: Iterable[Any],
    ) -> None:
        """Measure what running frames, the globals of calling files, and modules can reach."""
        skip = {id(each) for each in datasets}
        seen: dict[int, Holding | None] = {}
        for alias, thing in reachable(list(frames), list(sites), skip, extra):
            if id(thing) not in seen:
                look = self._tensor if isinstance(thing, torch.Tensor) else self._container
                seen[id(thing)] = look(step, alias, thing)
            elif (
                (known := seen[id(thing)]) is not None
                and alias not in known.aliases
                and known.kind != "tensor"
            ):
                known.aliases = [*known.aliases, alias][:MOST_ALIASES]

    def _container(self, step: int, alias: Alias, thing: Any) -> Holding | None:
        self.repeats.look(alias, thing)
        length = len(elements(thing))
        if length < FEWEST:
            return None
        bounded = isinstance(thing, deque) and thing.maxlen is not None
        size, graph = _measured(thing)
        outlived = graph and size >= COSTLY and _is_outlived(thing)
        if not size or (bounded and not outlived):
            return None
        kind = type(thing).__name__
        plain = all(issubclass(type(each), torch.Tensor) for each in elements(thing)[-FEWEST:])
        holding = Holding(
            [alias],
            kind,
            graph,
            ends=_ends(thing),
            outlived=outlived,
            bounded=bounded,
            of_tensors=plain,
        )
        return self._enter("container", id(thing), step, length, size, holding)

    def _tensor(self, step: int, alias: Alias, tensor: torch.Tensor) -> Holding | None:
        if node_of(tensor) is None:
            return None
        nodes, size = graph_size(tensor)
        if nodes <= 2:
            return None
        holding = Holding([alias], "tensor", True, tuple(tensor.shape), oldest=_oldest(tensor))
        return self._enter(
            f"graph of {alias.owners[:1]}.{alias.name}", id(alias.code), step, nodes, size, holding
        )

    def _enter(
        self, kind: str, key: int, step: int, length: int, size: int, holding: Holding
    ) -> Holding:
        known = self._known.setdefault((kind, key), holding)
        if known.oldest != holding.oldest or known.was_emptied:
            # A different graph or different elements from the last check.
            known.sizes, known.oldest = [], holding.oldest
        known.graph, known.shape, known.ends = holding.graph, holding.shape, holding.ends
        known.outlived = holding.outlived
        if not known.sizes or known.sizes[-1][0] < step:
            known.sizes = [*known.sizes[-6:], (step, length, size)]
        return known


def _measured(container: Any) -> tuple[int, bool]:
    """The bytes of tensors in a container, estimated from a sample; whether most have graphs."""
    held = elements(container)
    length = len(held)
    picked = held[:: max(length // SAMPLED, 1)]
    size, graphs, found = 0, 0, 0
    storages: set[int] = set()
    for each in picked:
        tensors = _tensors(each)
        found += bool(tensors)
        graphs += any(node_of(tensor) is not None for tensor in tensors)
        for tensor in tensors:
            if isinstance(tensor, nn.Parameter):
                continue
            if node_of(tensor) is not None:
                size += graph_size(tensor, storages)[1]
            elif storage_of(tensor) not in storages:
                storages.add(storage_of(tensor))
                size += tensor.numel() * tensor.element_size()
    if not found or found < 0.5 * len(picked):
        return 0, False
    return size * length // max(len(picked), 1), graphs > 0.5 * found


def _is_outlived(container: Any) -> bool:
    """Whether most of the graphs in a container were built before the last update."""
    held = elements(container)
    graphs = [
        each
        for one in held[:: max(len(held) // SAMPLED, 1)]
        for each in _tensors(one)
        if node_of(each) is not None
    ]
    return 2 * sum(map(_has_outlived_its_weights, graphs)) > len(graphs)


def _has_outlived_its_weights(tensor: torch.Tensor) -> bool:
    """Whether a weight of the graph has changed in place since the graph was built.

    Such a node still returns an activation but refuses the weight; a freed node refuses both.
    """
    pending, seen = [node_of(tensor)], set[Any]()
    while pending and len(seen) < MOST_NODES:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        refused = [each is None for each in _saved_by(node)]
        if any(refused) and not all(refused):
            return True
        pending += [below for below, _ in node.next_functions]
    return False


def _saved_by(node: Any) -> Iterator[torch.Tensor | None]:
    """The tensors that a node saves, None for one that it refuses.

    Tensors with an unpack hook are skipped: the hook is the program's, or recomputes a checkpointed
    segment. Where PyTorch does not expose hooks, no tensor is read.
    """
    for name in dir(type(node)):
        if not name.startswith(RAW):
            continue
        try:
            if getattr(getattr(node, name), "unpack_hook", UNKNOWN) is not None:
                continue
            saved = getattr(node, name.removeprefix("_raw"), None)
        except RuntimeError:
            yield None
        else:
            if isinstance(saved, torch.Tensor):
                yield saved


def _ends(container: Any) -> tuple[weakref.ref[torch.Tensor], ...]:
    values = elements(container)
    return tuple(
        weakref.ref(tensor) for each in (values[0], values[-1]) for tensor in _tensors(each)[:1]
    )


def _tensors(thing: Any) -> list[torch.Tensor]:
    return [thing] if issubclass(type(thing), torch.Tensor) else _inside(thing)


def _inside(thing: Any) -> list[torch.Tensor]:
    return [each for each in parts(thing) if issubclass(type(each), torch.Tensor)]


def _oldest(tensor: torch.Tensor) -> int:
    """The smallest of autograd's sequence numbers in a graph."""
    pending, seen, found = [node_of(tensor)], set[Any](), 2**62
    while pending and len(seen) < MOST_PASSED:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if not hasattr(node, "variable"):
            found = min(found, node._sequence_nr())
        pending += [below for below, _ in node.next_functions]
    return found


def graph_size(tensor: torch.Tensor, storages: set[int] | None = None) -> tuple[int, int]:
    """The number of nodes of a tensor's graph, and the bytes they keep alive.

    These are saved activations, and a fixed amount for each node.
    """
    storages = storages if storages is not None else set()
    pending, seen = [first := node_of(tensor)], {first}
    size = tensor.numel() * tensor.element_size()
    nodes = 0
    while pending and nodes < MOST_NODES:
        node = pending.pop()
        if node is None:
            continue
        nodes += 1
        size += 512
        for saved in _saved_by(node):
            if saved is not None and not saved.is_leaf and storage_of(saved) not in storages:
                storages.add(storage_of(saved))
                size += saved.numel() * saved.element_size()
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                pending.append(below)
    return nodes, size
