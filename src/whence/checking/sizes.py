"""Other batch sizes and, as notes, other sequence lengths and image sizes.

Sizes are tried on fake tensors. A failure counts only if a small real batch fails too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

from torch import nn

from whence.checking.axes import Layout
from whence.checking.clones import Clone
from whence.checking.explained import watch_step
from whence.checking.extents import other_extents
from whence.checking.fakes import Fakes, Shapes, shapes_of
from whence.checking.places import place_of_exception, place_of_finding, place_of_site
from whence.checking.recording import recording
from whence.checking.result import Place
from whence.checking.subject import Subject
from whence.checking.verdict import Verdict, failed, listed, passed, unchecked
from whence.finding import described
from whence.rules.operations import RESHAPES
from whence.rules.telling import shape_text
from whence.source.sites import frames_in, variable

SECONDS = 5.0
NORM_CHECKS = ("_verify_batch_size", "_verify_spatial_size")


@dataclass(frozen=True, slots=True)
class Trouble:
    """How a batch of one size fails: it raises, or an output does not follow the batch size."""

    size: int
    raised: Exception | None = None
    wanted: tuple[int, ...] = ()
    found: tuple[int, ...] = ()


def check_sizes(subject: Subject) -> Verdict:
    layout = subject.layout
    if layout is None:
        return unchecked("the batch has no recognisable sample axis; other sizes were not tried")
    fakes = Fakes(subject)
    bench = Bench(subject, layout, fakes)
    sizes, certain = _sizes(subject, layout)
    notes = (
        []
        if fakes.works
        else ["tried on real tensors, because the model reads values, which fake tensors lack"]
    )
    began = perf_counter()
    tried: list[int] = []
    for size in sizes:
        if not fakes.works and perf_counter() - began > SECONDS:
            break
        trouble = bench.trouble(size)
        tried.append(size)
        if trouble is None:
            continue
        if (
            size == 1
            and size != certain
            and trouble.raised is not None
            and _only_alone(bench, trouble)
        ):
            notes.append(_note_on_one(trouble))
            continue
        return _verdict(subject, layout, trouble, size == certain, notes)
    notes += other_extents(subject, layout, fakes)
    return passed(
        f"batches of {listed([str(each) for each in tried])} run, and the output sizes match", notes
    )


def _sizes(subject: Subject, layout: Layout) -> tuple[list[int], int | None]:
    """Return the sizes to try, and the one certain to occur: the last batch of an epoch."""
    given = subject.given
    if given.dataset_size is not None:
        rest = given.dataset_size % (given.batch_size or layout.size)
        sizes = [rest, 1] if rest else [1]
        return [each for each in dict.fromkeys(sizes) if each != layout.size], rest or None
    sizes = [1, 2, 3, layout.size - 1]
    return [each for each in dict.fromkeys(sizes) if each > 0 and each != layout.size], None


class Bench:
    """Run batches of other sizes."""

    def __init__(self, subject: Subject, layout: Layout, fakes: Fakes) -> None:
        self.subject = subject
        self.layout = layout
        self.fakes = fakes
        self._reference = fakes.reference if fakes.works else self._static_shapes()

    def batch(self, size: int) -> Any:
        return self.layout.take(
            self.subject.source.batch, [row % self.layout.size for row in range(size)]
        )

    def trouble(self, size: int) -> Trouble | None:
        batch = self.batch(size)
        if self.fakes.works:
            try:
                if self._departing(self.fakes.run(batch), size) is None:
                    return None
            except Exception:
                # A real pass decides whether the batch or the fakes are at fault.
                pass
        try:
            shapes = self._real(batch)
        except Exception as error:
            return Trouble(size, raised=error)
        return self._departing(shapes, size)

    def raises_in_eval(self, size: int) -> bool:
        made = self.subject.fresh(self.batch(size))
        made.model.eval()
        try:
            self.subject.run(made)
        except Exception:
            return True
        return False

    def _real(self, batch: Any) -> Shapes:
        done = self.subject.run(self.subject.fresh(batch))
        return shapes_of([call.output for call in done.calls])

    def _static_shapes(self) -> Shapes:
        """Return the output shapes, if they do not depend on the batch's contents."""
        alike = self.layout.take(self.subject.source.batch, [0] * self.layout.size)
        try:
            plain, other = self._real(self.subject.source.batch), self._real(alike)
        except Exception:
            return []
        return plain if plain == other else []

    def _departing(self, shapes: Shapes, size: int) -> Trouble | None:
        """Find an output that does not follow the batch size."""
        if len(shapes) != len(self._reference):
            return None
        for before, after in zip(self._reference, shapes, strict=True):
            wanted = scaled(before, self.layout.size, size)
            if wanted and after not in wanted:
                return Trouble(size, wanted=wanted[0], found=after)
        return None


def scaled(shape: tuple[int, ...], old: int, new: int) -> list[tuple[int, ...]]:
    """Return the allowed output shapes for another batch size: any sample axis may change."""
    counts = [
        size > 0 and size % old == 0 and (old > 1 or axis == 0) for axis, size in enumerate(shape)
    ]
    options = [
        (size // old * new, size) if counting else (size,)
        for size, counting in zip(shape, counts, strict=True)
    ]
    return [each for each in product(*options) if each != shape]


def _is_norm_of_one(exception: Exception) -> bool:
    """Whether a norm in training mode rejects a single value per channel."""
    names = [frame.f_code.co_name for frame in frames_in(exception.__traceback__)]
    return any(name in NORM_CHECKS for name in names)


def _norm_in(exception: Exception) -> str:
    """Name the failing layer: the one entered last, relative to the one entered first."""
    owners = [variable(frame, "self") for frame in frames_in(exception.__traceback__)]
    entered = [each for each in owners if isinstance(each, nn.Module)]
    names = (
        [name for name, each in entered[-1].named_modules() if each is entered[0]]
        if entered
        else []
    )
    return f", in {names[0]} ({type(entered[0]).__name__})" if names and names[0] else ""


def _only_alone(bench: Bench, trouble: Trouble) -> bool:
    """Whether a batch of one fails because a norm in training, or the loss, compares samples."""
    assert trouble.raised is not None
    if _is_norm_of_one(trouble.raised):
        return not bench.raises_in_eval(1)
    return not _in_model(trouble.raised, bench.subject) and bench.trouble(2) is None


def _in_model(exception: Exception, subject: Subject) -> bool:
    kind = type(subject.source.model)
    return any(
        isinstance(owner := variable(frame, "self"), kind) and owner is not subject.given.loss_fn
        for frame in frames_in(exception.__traceback__)
    )


def _note_on_one(trouble: Trouble) -> str:
    assert trouble.raised is not None
    place = place_of_exception(trouble.raised)
    where = f" at {place.file}:{place.line}" if place is not None else ""
    if _is_norm_of_one(trouble.raised):
        return (
            f"a batch of one fails in training{where}: a norm over samples needs two; pass "
            "dataset_size and batch_size to check whether one occurs"
        )
    return f"a batch of one fails in the loss{where}: the loss compares samples"


def _verdict(
    subject: Subject, layout: Layout, trouble: Trouble, comes: bool, notes: list[str]
) -> Verdict:
    size = trouble.size
    which = f"a batch of {size}"
    if comes:
        given = subject.given
        which = (
            f"the last batch ({size} samples: {given.dataset_size} in batches of "
            f"{given.batch_size or layout.size})"
        )
    if trouble.raised is None:
        return _squeezed(subject, layout, trouble, which, notes)
    text = described(trouble.raised).splitlines()[0]
    place = place_of_exception(trouble.raised)
    if _is_norm_of_one(trouble.raised):
        return failed(
            f"{which} fails in training{_norm_in(trouble.raised)}: {text}",
            why="With one sample, a norm over samples has one value per channel and no variance.",
            fix=(
                "Use DataLoader(..., drop_last=True) for training, another batch size, or "
                "GroupNorm or LayerNorm."
            ),
            place=place,
            notes=notes,
        )
    made = subject.fresh()
    batch = layout.take(made.batch, [row % layout.size for row in range(size)])

    def both() -> None:
        subject.run(made)
        subject.run(Clone(made.model, made.loss_fn, batch))

    finding = watch_step(made.model, both).worst
    if finding is not None:
        return failed(
            f"{which} fails: {finding.verdict}",
            why=f"{text}. {finding.why}",
            fix=finding.fix,
            place=place_of_finding(finding),
            notes=notes,
        )
    return failed(
        f"{which} fails: {text}",
        why=f"The model runs with {layout.size} samples but not with {size}: a size is hard-coded.",
        fix="Take sizes from the tensor, x.size(0), and pass the axis to squeeze.",
        place=place,
        notes=notes,
    )


def _squeezed(
    subject: Subject, layout: Layout, trouble: Trouble, which: str, notes: list[str]
) -> Verdict:
    lost = len(trouble.found) < len(trouble.wanted)
    if lost:
        why = (
            "squeeze without an axis removes every axis of size one, including the batch axis. "
            "Nothing raises, and the loss broadcasts."
        )
        fix = "Pass the axis: squeeze(1), squeeze(-1)."
    else:
        why = (
            "The number of rows does not follow the number of samples: a row is a part of a "
            "sample, or several samples."
        )
        fix = "Take the size from the tensor: x.view(x.size(0), -1), flatten(1)."
    return failed(
        f"{which} gives an output of shape {shape_text(trouble.found)}; expected "
        f"{shape_text(trouble.wanted)}",
        why=why,
        fix=fix,
        place=_first_departure(subject, layout, trouble.size),
        notes=notes,
    )


def _first_departure(subject: Subject, layout: Layout, size: int) -> Place | None:
    """Find the reshape where a small batch first gets a shape that does not match the whole one."""
    tapes = []
    for number in (layout.size, size):
        batch = layout.take(subject.source.batch, [row % layout.size for row in range(number)])
        with recording() as seen:
            subject.run(subject.fresh(batch))
        tapes.append([each for each in seen.calls if each.outputs])
    for one, other in zip(*tapes, strict=False):
        if one.name != other.name or one.site != other.site:
            return None
        wanted = scaled(one.outputs[0].shape, layout.size, size)
        if one.name in (*RESHAPES, "squeeze") and wanted and other.outputs[0].shape not in wanted:
            return place_of_site(one.site)
    return None
