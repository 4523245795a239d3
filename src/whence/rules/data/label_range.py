"""Labels and indices that are out of range."""

from __future__ import annotations

import ast
from dataclasses import replace

import torch

from whence.finding import Finding, Hop, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.counting import counted_before
from whence.lineage.following.files import WRITERS
from whence.lineage.properties import HasAxis, HasElement
from whence.lineage.trail import Trail, trace
from whence.rules.data.no_probability import refused
from whence.rules.indexing import out_of_range
from whence.rules.operations import CLASS_LOSSES, loss_operands
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.failed import FailedCall


def _trail(failed: FailedCall, index: torch.Tensor, place: tuple[int, ...], value: int) -> Trail:
    return _chosen(trace(failed.value(index), HasElement(value, place), failed))


def _chosen(trail: Trail) -> Trail:
    """Report the line that uses a file's values as labels rather than the line that wrote them."""
    node = trail.spot.node() if trail.spot is not None else None
    if not isinstance(node, ast.Call) or last_name(node.func) not in WRITERS or not trail.hops:
        return trail
    return replace(trail, spot=Spot.of_hop(trail.hops[0]) or trail.spot, hops=trail.hops[1:])


VOID = 255


@rule("data/label-range")
def label_range(failed: FailedCall) -> Finding | None:
    """A label or index is outside its valid range.

    What happened
        A class label is not below the number of classes, or an index is not below the size of the
        table: labels that start at 1, a void value of 255, a padding id equal to the vocabulary
        size. Or labels are resized like images, which creates class ids by interpolation. Or a
        target of binary_cross_entropy is not a probability, such as an image from 0 to 255. With
        logits nothing raises, and the loss has no lower bound.
    Why it matters
        On the CPU the message has no value and no size; on a GPU it comes later, from another line.
    How it is detected
        The values of the index are compared with the size of the indexed axis. The first wrong
        value is traced to its sample and line. If the labels are contiguous and the classes were
        counted, the counting line is reported; likewise if the rows of an embedding were counted
        before more were added. Without an exception: a few samples are fetched again in a child
        process, and a label equals a rounded interpolation and none of the original labels.
    How to fix it
        Fix the labels. More classes, or an ignore_index for a value of unknown origin, only hide
        the mistake.
    When it stays silent
        Values equal to ignore_index. Targets for logits less than 0.5 outside 0 to 1, as noisy
        targets are.
    Cost
        None until a call raises; a few samples in a child process, once per run.
    """
    found = out_of_range(failed)
    if found is None:
        return refused(failed)
    index, place, value, size = found.index, found.place, found.value, found.size
    if failed.name == "embedding" and _counted(failed, index):
        return None
    for ask in (_too_few, _counted_before):
        if (finding := ask(failed, index, size)) is not None:
            return finding
    trail = _trail(failed, index, place, value)
    what = "label" if failed.name in CLASS_LOSSES else "index"
    table = "classes" if failed.name in CLASS_LOSSES else "rows"
    smallest, largest = int(index.min()), int(index.max())
    return failure_finding(
        failed,
        "data/label-range",
        verdict=f"{what} {value} is out of range: there are {size} {table}, 0 to {size - 1}",
        trail=trail,
        chain=_table_of(failed, size),
        why=f"The value at {shape_text(place)} of the "
        f"{'labels' if what == 'label' else 'indices'} is {value}; "
        f"this batch has {smallest} to {largest}." + _convention(smallest, largest, size),
        fix=_remedy(what, smallest, largest, size),
        patch=_from_zero(trail) if what == "label" and largest == size and smallest >= 1 else None,
        operands=(Operand(what, describe(index)), Operand(table, str(size))),
    )


def _table_of(failed: FailedCall, size: int) -> tuple[Hop, ...]:
    """Where an embedding with too few rows was built."""
    layer = failed.layer
    stack = failed.modules.built_at(layer) if isinstance(layer, torch.nn.Embedding) else ()
    return (Spot.of_site(stack[0]).hop(f"the table of {size} rows is built here"),) if stack else ()


def _too_few(failed: FailedCall, labels: torch.Tensor, size: int) -> Finding | None:
    """The labels are contiguous from 0, but the classes were counted where some are missing."""
    operands = loss_operands(failed)
    if (
        operands is None
        or failed.name not in CLASS_LOSSES
        or int(labels.min()) != 0
        or int(labels.max()) != size
    ):
        return None
    axis = 1 if operands[0].dim() > 1 else 0
    trail = trace(failed.value(operands[0]), HasAxis(axis - operands[0].dim(), size), failed)
    if trail.counted is None:
        return None
    return failure_finding(
        failed,
        "data/label-range",
        verdict=f"label {size} is out of range: only {size} classes were counted",
        trail=trail,
        spot=trail.counted,
        why=f"The labels of this batch range from 0 to {size}. The classes were counted over data "
        "that does not contain all of them.",
        fix="Count the classes over all of the data, or set their number explicitly.",
        operands=(Operand("label", describe(labels)), Operand("classes", str(size))),
    )


def _counted_before(failed: FailedCall, index: torch.Tensor, size: int) -> Finding | None:
    """The rows of a table were counted before more entries were added."""
    layer = failed.layer
    if not isinstance(layer, torch.nn.Embedding) or layer.num_embeddings != size:
        return None
    found = counted_before(failed.modules.built_at(layer), 0, "num_embeddings", failed.frames)
    if found is None or not size <= int(index.max()) < found[1] or int(index.min()) < 0:
        return None
    spot, now = found
    return failure_finding(
        failed,
        "data/label-range",
        verdict=f"index {int(index.max())} is out of range: the table was built for {size} "
        f"entries, now there are {now}",
        spot=spot,
        trail=_trail(
            failed, index, tuple((index == index.max()).nonzero()[0].tolist()), int(index.max())
        ),
        why=f"{failed.modules.path_of(layer)} has {size} rows, the number of entries when they "
        f"were counted. {now - size} more {'was' if now - size == 1 else 'were'} added after that.",
        fix="Count the entries after all have been added, just before the layer is built.",
        operands=(Operand("index", describe(index)), Operand("rows", str(size))),
    )


def _counted(failed: FailedCall, index: torch.Tensor) -> bool:
    return any(call.name == "arange" for call in list(ancestors(failed.value(index)))[:6])


NUMBERS = (
    "tensor",
    "as_tensor",
    "from_numpy",
    "LongTensor",
    "int",
    "long",
    "astype",
    "array",
    "asarray",
)


def _from_zero(trail: Trail) -> str | None:
    """Subtract 1 where the labels are read or converted to a tensor."""
    node = trail.spot.node() if trail.spot is not None else None
    if isinstance(node, ast.ListComp):
        node = node.elt
    makes = isinstance(node, ast.Call) and last_name(node.func) in NUMBERS
    if (
        trail.spot is None
        or node is None
        or not (makes or isinstance(node, ast.Name | ast.Subscript))
    ):
        return None
    return diff_of(insert_after(trail.spot.filename, node, " - 1"))


def _remedy(what: str, smallest: int, largest: int, size: int) -> str:
    if what == "label" and largest == size and smallest >= 1:
        return "Subtract 1 where the labels are created; an extra class would never be used."
    if what == "label" and largest == VOID:
        return (
            f"Pass ignore_index={VOID} to the loss if the value marks unlabelled data; otherwise "
            "fix the labels at the origin."
        )
    return (
        f"Fix the {what} at the origin. Do not add rows or classes, or ignore the value, before "
        "you know where it comes from."
    )


def _convention(smallest: int, largest: int, size: int) -> str:
    if largest == size and smallest >= 1:
        return " The labels seem to start at 1."
    if largest == VOID:
        return " 255 often marks void pixels."
    return ""
