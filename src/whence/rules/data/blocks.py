"""Where the sample order is decided: in a sampler, a stream, or a shuffle that has no effect."""

from __future__ import annotations

import ast

import torch

from whence.ledgers.audit import Audit
from whence.ledgers.batches import Epoch, LoaderEntry
from whence.ledgers.labels import LOSSES
from whence.lineage.ancestry import ancestors
from whence.rules.loss.probabilities import argument
from whence.source.classes import class_node, method_of
from whence.source.definitions import returns_of
from whence.source.discarded import discarded_draw, discarded_in_program
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name
from whence.tape.batches import BatchLeaf

MOST_STEPS_BACK = 8


def stored_by_class(
    audit: Audit, entry: LoaderEntry, epoch: Epoch, labels: torch.Tensor, most: float
) -> bool:
    """Whether the dataset stores the samples of an epoch in few runs of equal labels.

    Only targets of a classification loss count: samples bucketed by length or speaker are fine.
    """
    indices = list(epoch.marks)
    if len(indices) != len(labels) or not all(isinstance(each, int) for each in indices):
        return False
    there = labels[torch.tensor(indices).argsort()]
    return runs_of(there) <= most and feeds_class_loss(audit, entry)


def runs_of(labels: torch.Tensor) -> int:
    return int((labels[1:] != labels[:-1]).sum()) + 1


def feeds_class_loss(audit: Audit, entry: LoaderEntry) -> bool:
    """Whether a classification loss received the labels of a loader."""
    for call in audit.tape.calls:
        target = argument(call, 1, "target") if call.name in LOSSES else None
        if target is None:
            continue
        before = [
            each
            for _, made in zip(range(MOST_STEPS_BACK), ancestors(target), strict=False)
            for each in made.operands
        ]
        for value in (target, *before):
            leaf = value.leaf
            if (
                isinstance(leaf, BatchLeaf)
                and leaf.batch.info is entry.info
                and leaf.path == entry.labelled
            ):
                return True
    return False


KEEP = "Keep the result: this call changes nothing in place (`order = rng.permutation(order)`)."


def discarded_shuffle(maker: type) -> Spot | None:
    """A discarded shuffle: in the class that makes the order, or else the only one found."""
    for each in maker.__mro__:
        node, filename = class_node(each)
        if node is not None and (drawn := discarded_draw(node)) is not None:
            return Spot.of_node(filename, drawn)
    return discarded_in_program()


def ordered_by(maker: type) -> Spot | None:
    """The line that decides the order, if the program's own sampler or stream does."""
    walk, filename = method_of(maker, "__iter__")
    if walk is None:
        return None
    sorts = [
        each
        for each in ast.walk(walk)
        if isinstance(each, ast.Call) and "sort" in ast.unparse(each.func)
    ]
    if sorts:
        return Spot.of_node(filename, sorts[0])
    if (loop := stream_loop(maker)) is not None:
        return loop
    given = [each for each in returns_of(walk) if not isinstance(each, ast.Constant)]
    return Spot.of_node(filename, given[-1]) if given else None


def ordered_within(entry: LoaderEntry) -> Spot | None:
    """The expression that the program's own sampler iterates over in order."""
    walk, filename = method_of(entry.info.sampler_kind, "__iter__")
    given = (
        [each for each in ast.walk(walk) if isinstance(each, ast.Yield | ast.YieldFrom)]
        if walk is not None
        else []
    )
    value = given[-1].value if given else None
    if value is None:
        return None
    if isinstance(given[-1], ast.YieldFrom) or _is_batch(value):
        return Spot.of_node(filename, value)
    loop = enclosing(given[-1], ast.For, ast.FunctionDef)
    return Spot.of_node(filename, loop.iter) if isinstance(loop, ast.For) else None


def _is_batch(node: ast.expr) -> bool:
    """`list(range(a, b))`, `order[a:b]`, `order[a:b].tolist()`: several indices at once."""
    if isinstance(node, ast.Call) and last_name(node.func) in ("list", "range", "arange", "tolist"):
        return True
    return isinstance(node, ast.ListComp) or (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice)
    )


def stream_loop(stream: type) -> Spot | None:
    """The loop that yields a stream's samples: in `__iter__`, or in a method it iterates over."""
    name, found, home = "__iter__", None, ""
    for _ in range(4):
        walk, filename = method_of(stream, name)
        loop = (
            next((each for each in ast.walk(walk) if isinstance(each, ast.For)), None)
            if walk is not None
            else None
        )
        source = loop.iter if loop is not None else None
        if walk is not None and loop is None:
            source = next(
                (each.value for each in ast.walk(walk) if isinstance(each, ast.YieldFrom)), None
            )
            source = source or next(
                (each.value for each in ast.walk(walk) if isinstance(each, ast.Return)), None
            )
        found, home = (loop, filename) if loop is not None else (found, home)
        own = [
            each.func.attr
            for each in (ast.walk(source) if source is not None else ())
            if isinstance(each, ast.Call)
            and isinstance(each.func, ast.Attribute)
            and ast.unparse(each.func.value) == "self"
        ]
        if not own:
            break
        name = own[0]
    return Spot.of_node(home, found.iter) if found is not None else None
