"""A pass: what the program does between two updates of its weights, and what is kept so that it can be run again.

A pass begins where an optimizer has stepped, or where a batch arrives after a backward. While the call sensor is on, its
calls are on the tape. In every pass, recorded or not, its batches, the inputs of its outermost modules and the random
state are kept until the next one begins.
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
"""Recorded passes of one structure after which another one like them tells nothing new."""
LARGEST_COPY = 64 * 2**20
MOST_USED = 256 * 2**20
MOST_MARKS = 500


@dataclass(frozen=True, slots=True)
class Mark:
    """The random state at a point of a pass: its start, a batch's arrival, an outermost module's entry."""

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
    """The tensors that were given to each outermost module, in order."""
    before: dict[Value, torch.Tensor] = field(default_factory=dict)
    """Contents of leaves that the recorded pass changed in place, from before it did."""
    copies: dict[int, torch.Tensor] = field(default_factory=dict)
    """The same for a pass that is not recorded, of those that earlier passes changed, by the tensor's identity."""
    used: dict[int, torch.Tensor] = field(default_factory=dict)
    """Gradients that optimizers have used within backward, and may have cleared there, by the weights' identity."""
    is_gone: bool = False
    """They were too large to be kept, and so were the weights that they have changed."""
    held: dict[Value, torch.Tensor] = field(default_factory=dict)
    """What the recorded pass was given from outside, kept alive while it lasts."""
    late: bool = False
    """Recording began within it: what it was given may have been made in it."""
    backwards: int = 0
    trained: bool = False
    """An outermost module ran in it with gradients on."""
    is_familiar: bool = False
    """There are recorded ones like it already that can stand for it."""
    variables: dict[Value, torch.Tensor] | None = None
    """What the program's variables held when backward began, where that was noted: by now they may hold something else."""
    is_over: bool = False
    """It is looked into after its end, as its values were read late."""
    has_leaves: bool = True
    """Whether what it was given was kept until then."""
    is_approximate: bool = False
    """The weights that it had are gone, and others stand in for them."""
    structure: tuple[str, ...] = ()
    """The end of the graph that its loss had."""

    def is_leaf(self, value: Value) -> bool:
        """True for what the pass was given and did not compute."""
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
    """The end of a loss's graph: a term that is switched on late shows there, and in no shape."""
    node = loss.grad_fn
    return (
        (node.name(), *(each.name() for each, _ in node.next_functions if each is not None))
        if node
        else ()
    )


@dataclass(eq=False, slots=True)
class Score:
    """A recorded pass that is over: its calls, and how to find in another pass what it was given."""

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
    """What the pass was given and changed in place, as it was afterwards."""


class PassBook:
    """The pass that is under way, and a few recorded ones that can stand for it."""

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.scores: list[Score] = []
        self.current = Pass(0, 0, True)
        self.begun = 0
        self._draws = False
        self._most_batches = 1
        """That a pass was seen to take."""
        self._entries = MOST_ENTRIES
        """Of outermost modules in a pass, if that was always the same number."""
        self.hand = Hand()
        self._after_backward: AnyRandomState | None = None
        self._running: Call | None = None
        """The last backward that has begun: it comes on the tape when it has ended."""
        self.watched = False
        """Whether recorded passes change tensors from outside, such as running statistics."""
        self._changed: list[Value] = []
        """What they change."""
        self._handles: dict[Value, Handle] = {}
        self._loose_in: list[Score] | None = None
        self._loose: list[tuple[Value, Handle]] = []
        """Of which scores these were collected."""
        self._alike: dict[int, tuple[int, int]] = {}
        """By the structure of passes up to a backward: how many were kept, and the length of the tape at the last."""
        self._familiar: deque[tuple[int, int]] = deque()
        """The last passes that were like many before: the numbers of their calls."""

    def begin(self, step: int, recording: bool, late: bool = False) -> Pass:
        """End the pass under way, keep it as a score if it was recorded and trained, and begin the next. It may have begun
        already, with the end of the last backward."""
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
        """Let go of everything of the program's."""
        self.scores, self._changed, self._loose, self._loose_in = [], [], [], None
        self._handles = {}
        self.current = Pass(0, self.tape.count, False)

    def loosen(self) -> None:
        """An exception is on its way: whoever handles it may need the memory that only this pass holds."""
        now = self.current
        now.held = {
            value: each for value, each in now.held.items() if each.requires_grad and each.is_leaf
        }
        now.deliveries, now.entries, now.before, now.copies = [], [], {}, {}
        self._handles = {}

    def renew(self, step: int) -> None:
        """The same for a pass that is not recorded after another that was not: what was kept of that is let go."""
        now = self.current
        now.step, now.backwards, now.trained = step, 0, False
        if self.watched:
            self.copy_changed()
        if now.deliveries or now.entries or now.marks or now.recorded or self._draws:
            self._begin_again()

    def copy_changed(self) -> None:
        """Keep what passes change in place as it is now."""
        with torch.no_grad():
            self.current.copies = self._copies(self.current.copies)

    def _begin_again(self) -> None:
        now = self.current
        if now.deliveries or now.entries or now.marks:
            now.deliveries, now.entries, now.marks = [], [], []
        if now.recorded or self._draws:
            self.mark("start")

    def _copies(self, room: dict[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Of what passes change in place, where there is room for it."""
        changed = {id(tensor): tensor for _, tensor in self.changed_leaves() if _is_small(tensor)}
        spare = list(room.values()) if room.keys() == changed.keys() else []
        return dict(zip(changed, copied(list(changed.values()), spare), strict=True))

    def record_from_here(self) -> None:
        """Recording has begun within a pass: what was made in it before now is given to the rest."""
        if not self.current.backwards:
            self.current.recorded = self.current.late = True
            self.current.first = self.tape.count

    def mark(self, kind: str, state: AnyRandomState | None = None) -> None:
        """Keep the random state, unless the passes that can be replayed draw no random numbers."""
        if not self.current.recorded and not self._draws:
            return
        state = random_state() if state is None else state
        self.current.marks.append(Mark(kind, self.tape.count, state))

    def backward_ended(self) -> None:
        """Where no optimizer says when its gradients are used, what comes from here on may be the next pass."""
        if self.hand.on and self._draws:
            self._after_backward = random_state()

    def deliver(self, batch: Batch, data: Any) -> None:
        """Of batches that nothing came of no more are kept than a recorded pass has, as it is for its replay that they are."""
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
        """Whether the next one belongs to another pass."""
        return len(self.current.deliveries) >= self._most_batches

    def enter(self, args: tuple[Any, ...]) -> None:
        now = self.current
        # Nearly all are given tensors in a row.
        leaves = args if all(map(torch.is_tensor, args)) else flatten(args)
        now.entries.append(tuple([each if is_data(each) else None for each in leaves]))
        now.trained = now.trained or torch.is_grad_enabled()
        if now.recorded or self._draws:
            self.mark("entry")

    def is_complete(self) -> bool:
        """Whether all modules were entered that are in a pass like this: another one begins the next. What became of this one,
        if it had no backward, the program has thrown away."""
        now = self.current
        usual = self._entries if torch.is_grad_enabled() and not now.recorded else MOST_ENTRIES
        return len(now.entries) >= usual

    def note_draw(self, call: Call) -> None:
        """The first pass has the beginning of the program in it, seeds and all: what is drawn from there is kept at each draw."""
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
        """A call is about to run: keep what it was given from outside, and copy what it may be about to change."""
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
        """Weights are changed while backward is under way: keep them as they were, and the gradients that are there."""
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
        """Backward begins: remember which variables hold what the pass was given, for passes that are not recorded."""
        structure = hash(tuple((call.name, call.site) for call in self.calls()))
        times, last = self._alike.get(structure, (0, 0))
        # The tape forgets its oldest calls: one that stands for others has to be a newer one from time to time.
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
        """The calls of the pass under way that are on the tape."""
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
        # The newest value of each.
        changed = {
            id(each.tensor): each for score in reversed(self.scores) for each in score.changed
        }
        self._changed = [each for each in changed.values() if each.tensor is not None]

    def _thin_out(self, ended: Pass) -> None:
        """Of passes that tell nothing new only the last few stay on the tape."""
        self._familiar.append((ended.first, self.tape.count))
        if len(self._familiar) > ENOUGH_ALIKE:
            self.tape.forget_between(*self._familiar.popleft())

    def loose_handles(self) -> Sequence[tuple[Value, Handle]]:
        """Variables that hold what a pass is given and neither a batch nor an input of a module brings."""
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
        """Tensors from outside that passes change in place before backward: running statistics, states."""
        now = self.current
        if now.recorded:
            calls, first = self.calls() if now.before else [], now.first
            return _changed_from_outside(calls, first)
        return [(each, tensor) for each in self._changed if (tensor := each.tensor) is not None]


def _deciding(calls: Sequence[Call], ended: Pass) -> Sequence[Call]:
    """The calls that the losses of a pass depend on: an average of the weights kept beside them is not among these."""
    losses = [value for call in calls if call.name in BACKWARDS for value in call.operands]
    return needed_calls(calls, losses, ended.is_leaf, backward=False)


def _draws_for_losses(calls: Sequence[Call], ended: Pass) -> bool:
    """Whether losses depend on random numbers: the seed that a loader draws for its epoch does not count."""
    if not any(may_draw(call) for call in calls if call.phase != "optimizer"):
        return False
    losses = [value for call in calls if call.name in BACKWARDS for value in call.operands]
    needed = needed_calls(calls, losses, ended.is_leaf, backward=False, draws=False)
    return any(may_draw(call) for call in needed)


def _changed_from_outside(calls: Sequence[Call], first: int) -> list[tuple[Value, torch.Tensor]]:
    """Each with the value that it has after its last change."""
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
    """Whether there is room for a copy."""
    return is_readable(tensor) and _bytes(tensor) < LARGEST_COPY


def is_data(thing: Any) -> bool:
    """A tensor that hangs on no graph: keeping it keeps no activation alive."""
    return isinstance(thing, torch.Tensor) and not thing.requires_grad


def changes_something(name: str) -> bool:
    """Whether a call of this name may change an operand in place."""
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
    """The tensor at a place of the n-th batch of a pass."""
    if number >= len(deliveries):
        return None
    leaf = dict(leaves_of(deliveries[number][1])).get(path)
    return leaf if isinstance(leaf, torch.Tensor) else None
