"""The ledger of memory: which containers of tensors grow, whose graphs grow, and by how many bytes."""

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
UNTOLD = object()
FEWEST = 6
SAMPLED = 24
MOST_NODES = 4_000
MOST_PASSED = 40_000
"""Nodes that are only passed on the way to the oldest: the graph of one step may have thousands."""
MOST_ALIASES = 8
COSTLY = 8 * 2**20


@dataclass(eq=False, slots=True)
class Holding:
    """A container of tensors, or one tensor on a graph: how large it was at each look."""

    aliases: list[Alias]
    kind: str
    graph: bool
    shape: tuple[int, ...] = ()
    sizes: list[tuple[int, int, int]] = field(default_factory=list)
    """Step, length (or nodes), bytes."""
    oldest: int = -1
    """Autograd's number of the oldest node: the same at each look, if the graphs of all steps hang together."""
    ends: tuple[weakref.ref[torch.Tensor], ...] = ()
    """What a container had first and last."""
    outlived: bool = False
    """The weights of its graphs have changed since: no backward can use them."""
    bounded: bool = False
    """It lets go of the oldest by itself."""
    of_tensors: bool = True
    """Its elements are tensors, and not records that have some."""

    @property
    def was_emptied(self) -> bool:
        """Nothing of what it had at its ends is left: it is filled again for each epoch or episode, and these may get longer."""
        return bool(self.ends) and all(each() is None for each in self.ends)

    @property
    def name(self) -> str:
        return self.aliases[0].name

    @property
    def grows(self) -> bool:
        """It has grown at every one of the last three looks, with the steps."""
        if len(self.sizes) < 3 or self.bounded:
            return False
        (a, small, _), (b, middle, _), (c, large, _) = self.sizes[-3:]
        return middle - small >= 0.4 * (b - a) > 0 and large - middle >= 0.4 * (c - b) > 0

    @property
    def bytes(self) -> int:
        return self.sizes[-1][2]


class MemoryLedger:
    """Filled by looks at the program's own variables and what they hold. Keeps nothing of it alive."""

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
        """Walk the variables of running frames and of the files that calls were made from, what they hold, and modules."""
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
            # Another graph than at the last look, or other things.
            known.sizes, known.oldest = [], holding.oldest
        known.graph, known.shape, known.ends = holding.graph, holding.shape, holding.ends
        known.outlived = holding.outlived
        if not known.sizes or known.sizes[-1][0] < step:
            known.sizes = [*known.sizes[-6:], (step, length, size)]
        return known


def _measured(container: Any) -> tuple[int, bool]:
    """The bytes of tensors in a container, estimated from a sample, and whether most of its elements hang on graphs."""
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
    """Whether most of the graphs in a container were made before the last update."""
    held = elements(container)
    graphs = [
        each
        for one in held[:: max(len(held) // SAMPLED, 1)]
        for each in _tensors(one)
        if node_of(each) is not None
    ]
    return 2 * sum(map(_has_outlived_its_weights, graphs)) > len(graphs)


def _has_outlived_its_weights(tensor: torch.Tensor) -> bool:
    """A node that still has an activation, and refuses a weight: that was changed in place since. One that was freed refuses all."""
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
    """The tensors that a node keeps, None for one that it refuses. Those that a hook unpacks are left alone: the hook is the program's, or
    computes a checkpointed part again. Where torch does not tell of hooks, none are asked for."""
    for name in dir(type(node)):
        if not name.startswith(RAW):
            continue
        try:
            if getattr(getattr(node, name), "unpack_hook", UNTOLD) is not None:
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
    """The smallest of the numbers that autograd gave the nodes of a graph, in the order it made them."""
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
    """The nodes of a tensor's graph, and the bytes that they keep: saved activations, and about a kilobyte for each node."""
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
