"""Labels and indices outside of what they index."""

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
from whence.rules.telling import describe, shape_text, tell
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.failed import FailedCall


def _trail(failed: FailedCall, index: torch.Tensor, place: tuple[int, ...], value: int) -> Trail:
    return _chosen(trace(failed.value(index), HasElement(value, place), failed))


def _chosen(trail: Trail) -> Trail:
    """What a file has is as it is: the line that takes it for labels can be another."""
    node = trail.spot.node() if trail.spot is not None else None
    if not isinstance(node, ast.Call) or last_name(node.func) not in WRITERS or not trail.hops:
        return trail
    return replace(trail, spot=Spot.of_hop(trail.hops[0]) or trail.spot, hops=trail.hops[1:])


VOID = 255


@rule("data/label-range")
def label_range(failed: FailedCall) -> Finding | None:
    """A label or index lies outside its valid range.

    What happened
        A class label is not below the number of classes, or an index is not below the size of the table: labels that
        begin at one, a void value of 255, a padding id equal to the vocabulary's size. Or labels are resized as pictures are, which
        makes classes of the mixture of others. Or a target of binary_cross_entropy is no
        probability: a picture from 0 to 255. With logits nothing raises, and the loss has no lower end.
    Why it matters
        On the CPU the message has no value and no size; on a GPU it comes later, from another line.
    How it is detected
        The values of the index operand against the size of what it indexes; the first wrong value is followed back to the
        sample and the line that made it. Where the labels are whole and the classes were counted, that line is told; also where
        the rows of an embedding were counted, and there are more of what was counted by now. Without an exception: a few samples
        are fetched again, in a child process, and a label is what interpolation gives, rounded, and none of those that went in.
    How to fix it
        Mend the labels. More classes, or an ignore_index for a value of unknown origin, only hide it.
    When it stays silent
        Values equal to ignore_index. Targets for logits that are less than a half beyond 0 and 1, as noisy ones are.
    Cost
        None until a call raises; a few samples in a child process, once in a run.
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
    return tell(
        failed,
        "data/label-range",
        verdict=f"{what} {value} is out of range: there are {size} {table}, 0 to {size - 1}",
        trail=trail,
        chain=_table_of(failed, size),
        why=f"At {shape_text(place)} of the {'labels' if what == 'label' else 'indices'} ({smallest} to {largest} in this batch) stands {value}."
        + _habit(smallest, largest, size),
        fix=_remedy(what, smallest, largest, size),
        patch=_from_zero(trail) if what == "label" and largest == size and smallest >= 1 else None,
        operands=(Operand(what, describe(index)), Operand(table, str(size))),
    )


def _table_of(failed: FailedCall, size: int) -> tuple[Hop, ...]:
    """Where the table was built that has too few rows, if it is not the index that is wrong."""
    layer = failed.layer
    stack = failed.modules.built_at(layer) if isinstance(layer, torch.nn.Embedding) else ()
    return (Spot.of_site(stack[0]).hop(f"the table of {size} rows is built here"),) if stack else ()


def _too_few(failed: FailedCall, labels: torch.Tensor, size: int) -> Finding | None:
    """The labels begin at 0 and go on without a gap; what was counted are the classes of something that does not have them all."""
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
    return tell(
        failed,
        "data/label-range",
        verdict=f"label {size} is out of range: {size} classes were counted, and there are more",
        trail=trail,
        spot=trail.counted,
        why=f"The labels of this batch go from 0 to {size}. The number of classes was counted where not all of them occur.",
        fix="Count the classes over all of the data, or write their number down.",
        operands=(Operand("label", describe(labels)), Operand("classes", str(size))),
    )


def _counted_before(failed: FailedCall, index: torch.Tensor, size: int) -> Finding | None:
    """The rows of a table were counted, and what was counted has grown since."""
    layer = failed.layer
    if not isinstance(layer, torch.nn.Embedding) or layer.num_embeddings != size:
        return None
    found = counted_before(failed.modules.built_at(layer), 0, "num_embeddings", failed.frames)
    if found is None or not size <= int(index.max()) < found[1] or int(index.min()) < 0:
        return None
    spot, now = found
    return tell(
        failed,
        "data/label-range",
        verdict=f"index {int(index.max())} is out of range: {size} were counted for the table, and there are {now} now",
        spot=spot,
        trail=_trail(
            failed, index, tuple((index == index.max()).nonzero()[0].tolist()), int(index.max())
        ),
        why=f"{failed.modules.path_of(layer)} has as many rows as there were when they were counted, {size}. "
        f"{now - size} more {'was' if now - size == 1 else 'were'} added after that.",
        fix="Count when everything has been added, just before the layer is built.",
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
    """One less, where the numbers are read, become a tensor, or are handed over."""
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
        return "Take 1 off where the labels are made; one more class would never be used."
    if what == "label" and largest == VOID:
        return f"If it marks what has no label, let the loss leave it out: ignore_index={VOID}; if not, mend it where it is made."
    return "Mend it where it is made; do not raise the number of classes or ignore the value before you know where it comes from."


def _habit(smallest: int, largest: int, size: int) -> str:
    if largest == size and smallest >= 1:
        return " They seem to count from 1."
    if largest == VOID:
        return " 255 is a usual mark for void pixels."
    return ""
