"""A pass: what the program does between two updates of its weights, kept for a replay.

A pass begins after an optimizer's step, or when a batch arrives after a backward. While the call
sensor is on, its calls are on the tape. In every pass, recorded or not, its batches, the inputs of
its outermost modules and the random state are kept until the next pass begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from types import FrameType
from typing import Any

import torch

from whence.devices import AnyRandomState, random_state
from whence.tape.batches import Batch, BatchLeaf, leaves_of
from whence.tape.hand import Hand, copied
from whence.tape.handles import Handle, handles_in
from whence.tape.readable import is_readable
from whence.tape.slices import (
    BACKWARDS,
    is_final,
    is_random,
    is_within_backward,
    may_draw,
    needed_calls,
)
from whence.tape.tape import Call, Tape, Value, flatten

MOST_DELIVERIES = 16
MOST_ENTRIES = 64
MOST_SCORES = 8
ENOUGH_ALIKE = 4
"""Recorded passes of one structure after which another one adds no information."""
LARGEST_COPY = 64 * 2**20
MOST_USED = 256 * 2**20
MOST_MARKS = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """The random state at a point of a pass: its start, a batch's arrival, a module's entry."""

    kind: str
    number: int
    state: AnyRandomState


@dataclass(eq=False, slots=True)
class Pass:
    step: int
    first: int
    recorded: bool
    """Whether the call sensor was on from its start."""
    marks: list[Mark] = field(default_factory=list)
    deliveries: list[tuple[Batch, Any]] = field(default_factory=list)
    entries: list[tuple[torch.Tensor | None, ...]] = field(default_factory=list)
    """The tensors that each outermost module received, in order."""
    before: dict[Value, torch.Tensor] = field(default_factory=dict)
    """Original contents of leaves that the recorded pass changed in place."""
    copies: dict[int, torch.Tensor] = field(default_factory=dict)
    """The same for an unrecorded pass: leaves that earlier passes changed, by identity."""
    used: dict[int, torch.Tensor] = field(default_factory=dict)
    """Gradients that optimizers used and may have cleared during backward, by weight identity."""
    is_gone: bool = False
    """These gradients, and the weights that they changed, were too large to keep."""
    held: dict[Value, torch.Tensor] = field(default_factory=dict)
    """External inputs of the recorded pass, kept alive during the pass."""
    late: bool = False
    """Recording began within the pass, so its inputs may have been computed in it."""
    backwards: int = 0
    trained: bool = False
    """An outermost module ran in it with gradients on."""
    is_familiar: bool = False
    """Similar recorded passes exist and can represent it."""
    variables: dict[Value, torch.Tensor] | None = None
    """What the program's variables held when backward began, if that was noted. They may have
    changed since."""
    is_over: bool = False
    """The pass is inspected after its end, because its values were read late."""
    has_leaves: bool = True
    """Whether its inputs were kept until then."""
    is_approximate: bool = False
    """The original weights are gone; others are used in their place."""
    structure: tuple[str, ...] = ()
    """The end of its loss's graph."""

    def is_leaf(self, value: Value) -> bool:
        """Return whether a value is an input of the pass rather than computed in it."""
        call = value.call
        return (
            call is None
            or call.forgotten
            or call.number < self.first
            or call.phase in ("data", "optimizer")
            or isinstance(value.leaf, BatchLeaf)
            or call.has_foreign
        )


def structure_of(loss: torch.Tensor) -> tuple[str, ...]:
    """Return the end of a loss's graph.

    A loss term that is switched on late shows there, but in no shape.
    """
    node = loss.grad_fn
    return (
        (node.name(), *(each.name() for each, _ in node.next_functions if each is not None))
        if node
        else ()
    )


@dataclass(eq=False, slots=True)
class Score:
    """A completed recorded pass: its calls, and how to find its inputs in another pass."""

    structure: int
    step: int
    first: int
    calls: tuple[Call, ...]
    marks: tuple[Mark, ...]
    batches: tuple[Batch, ...]
    entries: tuple[tuple[Value | None, ...], ...]
    handles: dict[Value, Handle]
    """Variables of the program that held a value when backward began."""
    signature: tuple[Any, ...]
    changed: list[Value]
    """Inputs that the pass changed in place, as they were afterwards."""


class PassBook:
    """The current pass, and a few recorded ones that can represent it."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.scores: list[Score] = []
        self.current = Pass(0, 0, True)
        self.begun = 0
        self._draws = False
        self._most_batches = 1
        """The largest number of batches seen in a pass."""
        self._entries = MOST_ENTRIES
        """The number of outermost module calls in a pass, if it was always the same."""
        self.hand = Hand()
        self._after_backward: AnyRandomState | None = None
        self._running: Call | None = None
        """The last backward that began; it is put on the tape when it ends."""
        self.watched = False
        """Whether recorded passes change external tensors, such as running statistics."""
        self._changed: list[Value] = []
        """The tensors that they change."""
        self._handles: dict[Value, Handle] = {}
        self._loose_in: list[Score] | None = None
        """The scores from which `_loose` was collected."""
        self._loose: list[tuple[Value, Handle]] = []
        self._alike: dict[int, tuple[int, int]] = {}
        """By structure of the passes up to a backward: how many were kept, and the tape's length at
        the last."""
        self._familiar: deque[tuple[int, int]] = deque()
        """The call numbers of the last passes that were similar to many earlier ones."""

    def begin(self, step: int, recording: bool, late: bool = False) -> Pass:
        """End the current pass and begin the next.

        A recorded training pass is kept as a score. The next pass may already have begun at the end
        of the last backward.
        """
        ended = self.current
        if ended.recorded and ended.backwards and recording and not ended.is_familiar:
            self._keep(ended)
        elif ended.is_familiar:
            self._thin_out(ended)
        self._handles = {}
        self.begun += 1
        self.current = Pass(step, self.tape.count, recording)
        if not recording and self.watched:
            self.current.copies = self._copies({})
        self.mark("start", self._after_backward if late else None)
        return self.current

    def forget(self) -> None:
        """Release every object that belongs to the program."""
        self.scores, self._changed, self._loose, self._loose_in = [], [], [], None
        self._handles = {}
        self.current = Pass(0, self.tape.count, False)

    def loosen(self) -> None:
        """Release memory that only this pass holds.

        An exception is propagating, and its handler may need that memory.
        """
        now = self.current
        now.held = {
            value: each for value, each in now.held.items() if each.requires_grad and each.is_leaf
        }
        now.deliveries, now.entries, now.before, now.copies = [], [], {}, {}
        self._handles = {}

    def renew(self, step: int) -> None:
        """Begin an unrecorded pass after another one, and release what was kept of that."""
        now = self.current
        now.step, now.backwards, now.trained = step, 0, False
        if self.watched:
            self.copy_changed()
        if now.deliveries or now.entries or now.marks or now.recorded or self._draws:
            self._begin_again()

    def copy_changed(self) -> None:
        """Copy the tensors that passes change in place."""
        with torch.no_grad():
            self.current.copies = self._copies(self.current.copies)

    def _begin_again(self) -> None:
        now = self.current
        if now.deliveries or now.entries or now.marks:
            now.deliveries, now.entries, now.marks = [], [], []
        if now.recorded or self._draws:
            self.mark("start")

    def _copies(self, room: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Return copies of the tensors that passes change in place, if they are small."""
        changed = {id(tensor): tensor for _, tensor in self.changed_leaves() if _is_small(tensor)}
        spare = list(room.values()) if room.keys() == changed.keys() else []
        return dict(zip(changed, copied(list(changed.values()), spare), strict=True))

    def record_from_here(self) -> None:
        """Start recording within a pass: tensors made earlier in it count as inputs of the rest."""
        if not self.current.backwards:
            self.current.recorded = self.current.late = True
            self.current.first = self.tape.count

    def mark(self, kind: str, state: AnyRandomState | None = None) -> None:
        """Keep the random state, unless the replayable passes draw no random numbers."""
        if not self.current.recorded and not self._draws:
            return
        state = random_state() if state is None else state
        self.current.marks.append(Mark(kind, self.tape.count, state))

    def backward_ended(self) -> None:
        """Keep the random state after backward.

        Without an optimizer, the next pass may begin here.
        """
        if self.hand.on and self._draws:
            self._after_backward = random_state()

    def deliver(self, batch: Batch, data: Any) -> None:
        """Note a batch.

        Of unused batches, only as many are kept as a recorded pass has, because only a replay needs
        them.
        """
        now = self.current
        if self.has_its_batches() and not now.recorded:
            if self._draws or now.entries:
                self._begin_again()
            else:
                now.deliveries = []
        now.deliveries.append((batch, data))
        if now.recorded or self._draws:
            self.mark("batch")

    def has_its_batches(self) -> bool:
        """Return whether the next batch belongs to another pass."""
        return len(self.current.deliveries) >= self._most_batches

    def enter(self, args: tuple[Any, ...]) -> None:
        now = self.current
        # Nearly all modules receive a flat sequence of tensors.
        leaves = args if all(map(torch.is_tensor, args)) else flatten(args)
        now.entries.append(tuple([each if is_data(each) else None for each in leaves]))
        now.trained = now.trained or torch.is_grad_enabled()
        if now.recorded or self._draws:
            self.mark("entry")

    def is_complete(self) -> bool:
        """Return whether all modules of a pass like this were entered.

        Another module then begins the next pass. If this pass had no backward, the program has
        discarded its results.
        """
        now = self.current
        usual = self._entries if torch.is_grad_enabled() and not now.recorded else MOST_ENTRIES
        return len(now.entries) >= usual

    def note_draw(self, call: Call) -> None:
        """Keep the random state at each draw in the first pass.

        That pass includes the program's setup and seeds.
        """
        now = self.current
        if (
            now.first == 0
            and now.recorded
            and not call.inner
            and is_random(call)
            and len(now.marks) < MOST_MARKS
        ):
            self.mark("draw")

    def note_operands(self, call: Call, tensors: list[torch.Tensor]) -> None:
        """Keep the external inputs of a call that is about to run, and copy those it may change."""
        now = self.current
        if is_final(call):
            self._running = call
        if call.phase in ("data", "optimizer", "backward"):
            return
        changes = changes_something(call.name)
        for value, tensor in zip(call.operands, tensors, strict=True):
            if now.is_leaf(value):
                if is_data(tensor) or tensor.is_leaf:
                    now.held.setdefault(value, tensor)
                is_weight = tensor.requires_grad and tensor.is_leaf
                if changes and value not in now.before and not is_weight and _is_small(tensor):
                    now.before[value] = tensor.detach().clone()

    def note_update(self, weights: Sequence[torch.Tensor]) -> None:
        """Keep weights, and their gradients, before they are changed during backward."""
        now = self.current
        if not now.recorded or now.is_gone:
            return
        size = 2 * sum(map(_bytes, (*now.used.values(), *weights)))
        now.is_gone = size > MOST_USED or not all(map(is_readable, weights))
        if now.is_gone:
            now.used = {}
            return
        for weight in weights:
            now.before.setdefault(self.tape.value_of(weight), weight.detach().clone())
            if weight.grad is not None and is_readable(weight.grad):
                now.used[id(weight)] = weight.grad.detach().clone()

    def note_handles(self, frames: list[FrameType]) -> None:
        """Note which variables hold the pass's inputs when backward begins.

        A replay of an unrecorded pass finds its inputs by them.
        """
        structure = hash(tuple((call.name, call.site) for call in self.calls()))
        times, last = self._alike.get(structure, (0, 0))
        # The tape drops its oldest calls, so a representative pass must be renewed from time to
        # time.
        self.current.is_familiar = (
            times >= ENOUGH_ALIKE and self.tape.count - last < self.tape.most_calls // 2
        )
        if self.current.is_familiar:
            return
        self._alike[structure] = times + 1, self.tape.count
        wanted = {id(value.tensor): value for value in self.current.held}
        for call in self.calls():
            if not call.grad_mode or call.phase != "forward":
                wanted.update(
                    (id(value.tensor), value) for value in call.outputs if not value.requires_grad
                )
        wanted.pop(id(None), None)
        for frame in frames:
            for handle, tensor in handles_in(frame):
                if id(tensor) in wanted:
                    self._handles.setdefault(wanted[id(tensor)], handle)

    def calls(self) -> list[Call]:
        """Return the calls of the current pass that are on the tape."""
        running = self._running if is_within_backward() else None
        found = (
            [running]
            if running is not None and running not in islice(reversed(self.tape.calls), 1)
            else []
        )
        for call in reversed(self.tape.calls):
            if call.number < self.current.first:
                break
            found.append(call)
        return found[::-1]

    def _keep(self, ended: Pass) -> None:
        calls = tuple(call for call in self.calls() if call.phase != "data")
        structure = hash(
            tuple((call.name, call.site) for call in calls if call.phase != "optimizer")
        )
        by_tensor = {id(tensor): value for value, tensor in ended.held.items()}
        entries = tuple(
            tuple(by_tensor.get(id(each)) if each is not None else None for each in entry)
            for entry in ended.entries
        )
        score = Score(
            structure,
            ended.step,
            ended.first,
            calls,
            tuple(ended.marks),
            tuple(batch for batch, _ in ended.deliveries),
            entries,
            self._handles,
            tuple(batch.signature for batch, _ in ended.deliveries),
            [value for value, _ in _changed_from_outside(_deciding(calls, ended), ended.first)],
        )
        self.watched = self.watched or bool(score.changed)
        self._most_batches = max(self._most_batches, len(score.batches))
        self._draws = self._draws or _draws_for_losses(calls, ended)
        self.scores = [score, *(each for each in self.scores if each.structure != structure)][
            :MOST_SCORES
        ]
        counts = {len(each.entries) for each in self.scores}
        self._entries = max(counts) if len(counts) == 1 and 0 not in counts else MOST_ENTRIES
        # The newest value of each tensor.
        changed = {
            id(each.tensor): each for score in reversed(self.scores) for each in score.changed
        }
        self._changed = [each for each in changed.values() if each.tensor is not None]

    def _thin_out(self, ended: Pass) -> None:
        """Keep only the last few of the passes that add no information."""
        self._familiar.append((ended.first, self.tape.count))
        if len(self._familiar) > ENOUGH_ALIKE:
            self.tape.forget_between(*self._familiar.popleft())

    def loose_handles(self) -> Sequence[tuple[Value, Handle]]:
        """Return variables with inputs of a pass that are neither batches nor module inputs."""
        if self._loose_in is not self.scores:
            self._loose_in = self.scores
            self._loose = [
                (value, handle)
                for score in self.scores
                for value, handle in score.handles.items()
                if not (isinstance(value.leaf, BatchLeaf) and value.leaf.batch in score.batches)
                and not any(value in entry for entry in score.entries)
            ]
        return self._loose

    def changed_leaves(self) -> list[tuple[Value, torch.Tensor]]:
        """Return external tensors that passes change before backward, e.g. running statistics."""
        now = self.current
        if now.recorded:
            calls, first = self.calls() if now.before else [], now.first
            return _changed_from_outside(calls, first)
        return [(each, tensor) for each in self._changed if (tensor := each.tensor) is not None]


def _deciding(calls: Sequence[Call], ended: Pass) -> Sequence[Call]:
    """Return the calls that the losses of a pass depend on.

    An average of the weights that is kept beside them is not among these.
    """
    losses = [value for call in calls if call.name in BACKWARDS for value in call.operands]
    return needed_calls(calls, losses, ended.is_leaf, backward=False)


def _draws_for_losses(calls: Sequence[Call], ended: Pass) -> bool:
    """Return whether losses depend on random numbers.

    The seed that a loader draws for its epoch does not count.
    """
    if not any(may_draw(call) for call in calls if call.phase != "optimizer"):
        return False
    losses = [value for call in calls if call.name in BACKWARDS for value in call.operands]
    needed = needed_calls(calls, losses, ended.is_leaf, backward=False, draws=False)
    return any(may_draw(call) for call in needed)


def _changed_from_outside(calls: Sequence[Call], first: int) -> list[tuple[Value, torch.Tensor]]:
    """Return external tensors, each with its value after the last change."""
    found: dict[int, tuple[Value, torch.Tensor]] = {}
    for call in calls:
        if call.inner or call.phase in ("data", "optimizer", "backward"):
            continue
        for before, after in zip(call.changed, call.outputs, strict=False):
            tensor = after.tensor
            from_outside = before.call is None or before.call.number < first or id(tensor) in found
            if (
                tensor is not None
                and from_outside
                and not tensor.requires_grad
                and tensor.is_floating_point()
            ):
                found[id(tensor)] = after, tensor
    return list(found.values())


def _is_small(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is small enough to copy."""
    return is_readable(tensor) and _bytes(tensor) < LARGEST_COPY


def is_data(thing: Any) -> bool:
    """Return whether a thing is a tensor without a graph: keeping it keeps no activation alive."""
    return isinstance(thing, torch.Tensor) and not thing.requires_grad


def changes_something(name: str) -> bool:
    """Return whether a call of this name may change an operand in place."""
    return (
        (name.endswith("_") and not name.endswith("__"))
        or name in ("__setitem__", "batch_norm", "instance_norm", "data.__set__")
        or (name.startswith("__i") and name.endswith("__"))
    )


def _bytes(tensor: torch.Tensor) -> int:
    try:
        return tensor.numel() * tensor.element_size()
    except (RuntimeError, ValueError):
        return LARGEST_COPY


def delivered(deliveries: list[tuple[Batch, Any]], number: int, path: str) -> torch.Tensor | None:
    """Return the tensor at a path of the n-th batch of a pass."""
    if number >= len(deliveries):
        return None
    leaf = dict(leaves_of(deliveries[number][1])).get(path)
    return leaf if isinstance(leaf, torch.Tensor) else None
