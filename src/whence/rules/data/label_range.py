"""Labels and indices outside of what they index."""

from __future__ import annotations

import ast
from typing import Any

import torch

from whence.finding import Finding, Operand
from whence.lineage.ancestry import ancestors
from whence.lineage.counting import counted_before
from whence.lineage.properties import HasAxis, HasElement
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.dtype.operands import cast_patch
from whence.rules.operations import CLASS_LOSSES, loss_operands
from whence.rules.rule import rule
from whence.rules.telling import describe, dtype_name, shape_text, tell
from whence.source.edits import diff_of, insert_after
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.failed import FailedCall

IGNORED = -100


def _out_of_range(failed: FailedCall) -> tuple[torch.Tensor, tuple[int, ...], int, int] | None:
    """The index tensor, the place and value of its first wrong element, and the size of what it indexes."""
    index, size, exempt = _indexing(failed)
    if index is None or size is None or not _holds_indices(index):
        return None
    wrong = (index >= size) | (index < (-size if failed.name == "__getitem__" else 0))
    if exempt is not None:
        wrong &= index != exempt
    places = wrong.nonzero()
    if not len(places):
        return None
    place = tuple(int(each) for each in places[0])
    return index, place, int(index[place]), size


INDICES = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _holds_indices(tensor: torch.Tensor) -> bool:
    return tensor.dtype in INDICES and tensor.layout is torch.strided and not tensor.is_meta and tensor.numel() > 0


def _indexing(failed: FailedCall) -> tuple[torch.Tensor | None, int | None, int | None]:
    """Index tensor, size of the axis it indexes, and the value that is exempt."""
    operands = loss_operands(failed)
    if operands is not None and failed.name in CLASS_LOSSES:
        prediction, target = operands
        exempt = failed.kwargs.get("ignore_index", IGNORED)
        return (
            target,
            prediction.shape[1] if prediction.dim() > 1 else prediction.shape[-1] if prediction.dim() else None,
            exempt,
        )
    first, second = failed.argument(0, "input"), failed.argument(1, "weight")
    if (
        failed.name in ("embedding", "embedding_bag")
        and isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
    ):
        if first.is_floating_point() != second.is_floating_point() and first.is_floating_point():
            first, second = second, first
        return first, second.shape[0] if second.dim() else None, None
    if failed.name in (
        "gather",
        "index_select",
        "scatter",
        "scatter_",
        "scatter_add",
        "scatter_add_",
        "index_add",
        "index_add_",
        "index_fill_",
        "index_copy_",
    ):
        axis, index = failed.argument(1, "dim"), failed.argument(2, "index")
        if isinstance(first, torch.Tensor) and isinstance(axis, int) and isinstance(index, torch.Tensor):
            return index, first.shape[axis], None
    if failed.name == "one_hot" and isinstance(first, torch.Tensor):
        classes = failed.argument(1, "num_classes")
        return first, classes if isinstance(classes, int) and classes > 0 else None, None
    if failed.name == "__getitem__" and isinstance(first, torch.Tensor):
        return _subscript(first, failed.args[1] if len(failed.args) > 1 else None)
    return None, None, None


def _subscript(table: torch.Tensor, index: Any) -> tuple[torch.Tensor | None, int | None, int | None]:
    for axis, each in enumerate(index if isinstance(index, tuple) else (index,)):
        if isinstance(each, torch.Tensor) and each.dtype in (torch.int64, torch.int32) and axis < table.dim():
            return each, table.shape[axis], None
    return None, None, None


def _trail(failed: FailedCall, index: torch.Tensor, place: tuple[int, ...], value: int) -> Trail:
    return trace(failed.value(index), HasElement(value, place), failed)


def _wrapping_cast(failed: FailedCall, index: torch.Tensor, value: int) -> tuple[Any, int] | None:
    """A cast on the way that could not hold the number: its call, and the number from before it."""
    current = failed.value(index)
    prop = HasElement(value)
    for _ in range(200):
        call = current.call
        if call is None or not call.operands:
            return None
        source = call.operands[0]
        narrower = not source.dtype.is_floating_point and source.dtype.itemsize > current.dtype.itemsize
        if call.name in ("to", "short", "char", "byte", "int", "type") and narrower:
            lost = 2 ** (8 * current.dtype.itemsize)
            tensor = source.tensor
            original = next(
                (each for each in (value + lost, value - lost) if tensor is None or bool((tensor == each).any())), None
            )
            contains = tensor is not None and bool((tensor == value).any())
            return (call, original) if original is not None and not contains else None
        carried = prop.carrier(call, current)
        if carried is None:
            return None
        current = carried[0]
    return None


@rule("dtype/narrowed")
def narrowed(failed: FailedCall) -> Finding | None:
    """A cast changed values.

    What happened
        Numbers were put into a type that cannot hold them: ids above 32767 in int16 become negative, and an embedding or
        a loss then finds an index out of range.
    Why it matters
        The lookup raises; the cast did it, often long before.
    How it is detected
        The wrong index is followed back to a cast whose input had the number plus or minus what the type wraps by.
    How to fix it
        A wider type at the cast.
    When it stays silent
        Casts that kept every value.
    Cost
        None until a call raises.
    """
    found = _out_of_range(failed)
    if found is None:
        return None
    index, _, value, size = found
    cast = _wrapping_cast(failed, index, value)
    if cast is None:
        return None
    call, original = cast
    narrow = dtype_name(call.outputs[0].dtype)
    spot = Spot.of_site(call.site) if call.site is not None else None
    return tell(
        failed,
        "dtype/narrowed",
        verdict=f"{original} became {value} in a cast to {narrow}, and is out of range for {failed.name}",
        spot=spot,
        why=f"{narrow} holds numbers up to {torch.iinfo(call.outputs[0].dtype).max}; {original} wraps around to {value}. "
        f"The table has {size} rows.",
        fix="Keep the numbers in int32 or int64 at the cast.",
        patch=cast_patch(Trail(Birth.CALL, spot), torch.int64),
        operands=(Operand("before", describe(call.operands[0])), Operand("index", describe(index))),
    )


@rule("data/label-range")
def label_range(failed: FailedCall) -> Finding | None:
    """A label or index lies outside its valid range.

    What happened
        A class label is not below the number of classes, or an index is not below the size of the table: labels that
        begin at one, a void value of 255, a padding id equal to the vocabulary's size.
    Why it matters
        On the CPU the message has no value and no size; on a GPU it comes later, from another line.
    How it is detected
        The values of the index operand against the size of what it indexes; the first wrong value is followed back to the
        sample and the line that made it. Where the labels are whole and the classes were counted, that line is told; also where
        the rows of an embedding were counted, and there are more of what was counted by now.
    How to fix it
        Mend the labels. More classes, or an ignore_index for a value of unknown origin, only hide it.
    When it stays silent
        Values equal to ignore_index.
    Cost
        None until a call raises.
    """
    found = _out_of_range(failed)
    if found is None or _wrapping_cast(failed, found[0], found[2]) is not None:
        return None
    index, place, value, size = found
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
        why=f"At {shape_text(place)} of the {'labels' if what == 'label' else 'indices'} ({smallest} to {largest} in this batch) stands {value}."
        + _habit(smallest, largest, size),
        fix="Mend it where it is made; do not raise the number of classes or ignore the value before you know where it comes from.",
        patch=_from_zero(trail) if what == "label" and largest == size and smallest >= 1 else None,
        operands=(Operand(what, describe(index)), Operand(table, str(size))),
    )


def _too_few(failed: FailedCall, labels: torch.Tensor, size: int) -> Finding | None:
    """The labels begin at 0 and go on without a gap; what was counted are the classes of something that does not have them all."""
    operands = loss_operands(failed)
    if operands is None or failed.name not in CLASS_LOSSES or int(labels.min()) != 0 or int(labels.max()) != size:
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
        trail=_trail(failed, index, tuple((index == index.max()).nonzero()[0].tolist()), int(index.max())),
        why=f"{failed.modules.path_of(layer)} has as many rows as there were when they were counted, {size}. "
        f"{now - size} more {'was' if now - size == 1 else 'were'} added after that.",
        fix="Count when everything has been added, just before the layer is built.",
        operands=(Operand("index", describe(index)), Operand("rows", str(size))),
    )


def _counted(failed: FailedCall, index: torch.Tensor) -> bool:
    return any(call.name == "arange" for call in list(ancestors(failed.value(index)))[:6])


NUMBERS = ("tensor", "as_tensor", "from_numpy", "LongTensor", "int", "long", "astype", "array", "asarray")


def _from_zero(trail: Trail) -> str | None:
    """One less, where the numbers are read, become a tensor, or are handed over."""
    node = trail.spot.node() if trail.spot is not None else None
    if isinstance(node, ast.ListComp):
        node = node.elt
    makes = isinstance(node, ast.Call) and last_name(node.func) in NUMBERS
    if trail.spot is None or node is None or not (makes or isinstance(node, ast.Name | ast.Subscript)):
        return None
    return diff_of(insert_after(trail.spot.filename, node, " - 1"))


def _habit(smallest: int, largest: int, size: int) -> str:
    if largest == size and smallest >= 1:
        return " They seem to count from 1."
    if largest == 255:
        return " 255 is a usual mark for void pixels."
    return ""
