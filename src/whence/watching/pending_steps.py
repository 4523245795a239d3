"""Steps on an accelerator whose values have not arrived yet, and what is kept of them until then.

A step's losses and flags are copied to the host without blocking (`tape/readings.py`) and read a
step or more later. Until then, everything needed to replay the step is kept: its batches, the
inputs of its outermost modules, the variables that held the rest, the random states, and the
weights from before the update where these are small. This is limited to two steps. An older step
keeps only its flags.
"""

from __future__ import annotations

import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field

import torch
from torch.optim import Optimizer

from whence.devices import HOST_TYPES, has_room, is_capturing
from whence.source.sites import Site, user_frames
from whence.tape.batches import leaves_of
from whence.tape.hand import copied
from whence.tape.passes import Pass, PassBook, is_data, structure_of
from whence.tape.readings import GRADIENTS, LOSSES, STATISTICS, WEIGHTS, Boards, Reading
from whence.tape.tape import Value

MOST_KEPT = 2
"""Steps that are kept for a replay."""
LARGEST_WEIGHTS = 8 * 2**20
"""Bytes of weights copied before each update. Larger copies would cost time and memory."""
ROOMS = MOST_KEPT + 1
"""Sets of such copies: one for each kept step, and one for the current step."""

PLAIN = (torch.Tensor, torch.nn.Parameter)

Sites = tuple[Site | None, Site | None]
"""The places of the last backward and the last update."""


@dataclass(eq=False, slots=True)
class PendingStep:
    """A step whose losses and flags have not arrived yet."""

    reading: Reading
    now: Pass
    losses: list[torch.Tensor] = field(default_factory=list)
    """Without their graphs."""
    structures: list[tuple[str, ...]] = field(default_factory=list)
    """The end of each loss's graph."""
    variables: list[dict[Value, torch.Tensor]] = field(default_factory=list)
    """The program's variables when each backward began."""
    optimizer: weakref.ref[Optimizer] | None = None
    """The optimizer that used the gradients."""
    weights: dict[int, torch.Tensor] | None = None
    """Copies from before the update, by the weights' identity.

    None if there was no update since, or they are too large.
    """
    is_updated: bool = False
    """Whether the weights were changed since."""
    sites: Sites = (None, None)
    versions: list[tuple[torch.Tensor, int]] = field(default_factory=list)
    """Its leaves, and their versions at the end of the step."""

    @property
    def backward_at(self) -> tuple[Site, ...]:
        return (self.sites[0],) if self.sites[0] is not None else ()

    @property
    def update_at(self) -> tuple[Site, ...]:
        return (self.sites[1],) if self.sites[1] is not None else self.backward_at

    def is_intact(self) -> bool:
        """Whether the leaves are unchanged."""
        return self.now.has_leaves and all(
            _version(each) == version for each, version in self.versions
        )

    def prepared(self, number: int, lost: Sequence[torch.Tensor], names: Sequence[str]) -> Pass:
        """The pass as it can be replayed now, up to the loss with this number.

        `lost` are weights that are not finite by now.
        """
        now = self.now
        if not self.is_intact():
            self.release()
        now.backwards = max(number + 1, 1)
        now.structure = self.structures[number] if self.structures else ()
        now.variables = self.variables[number] if self.variables else {}
        now.is_approximate = self.is_updated and self.weights is None
        if now.is_approximate and now.has_leaves:
            others = _stand_ins(lost, names)
            now.has_leaves = others is not None
            now.copies |= others or {}
        now.copies |= self.weights or {}
        return now

    def release(self) -> None:
        """Free the leaves."""
        self.now.has_leaves = False
        self.now.deliveries, self.now.entries, self.now.marks = [], [], []
        self.weights, self.versions, self.variables = None, [], []


class PendingSteps:
    def __init__(self, passes: PassBook) -> None:
        self._passes = passes
        self.is_on = True
        """False where values must be read immediately: with `--stop-on`, and in a child process."""
        self._boards = Boards()
        self._open: PendingStep | None = None
        """The current step, if its values are read late."""
        self._queue: deque[PendingStep] = deque()
        self._rooms: list[dict[int, list[torch.Tensor]]] = [{} for _ in range(ROOMS)]
        self._updates = 0
        self._spare: dict[int, torch.Tensor] = {}
        """Copies of running statistics that no step needs, reused as memory for the next ones."""
        self._fits, self._fits_not = 0, sys.maxsize
        """The most bytes of leaves that fit on the device, and the fewest that did not."""
        self.last_sites: Callable[[], Sites] = lambda: (None, None)

    def __bool__(self) -> bool:
        return bool(self._queue)

    def may_wait(self) -> bool:
        """Whether the current pass may be read late: it is open, or had no backward yet."""
        now = self._passes.current
        return self.is_on and not now.recorded and (self._open is not None or not now.backwards)

    @property
    def is_open(self) -> bool:
        return self._open is not None

    def forget(self) -> None:
        self._open = None
        self._queue.clear()
        self._boards.forget()
        self._rooms = [{} for _ in range(ROOMS)]

    # The current step.

    def add_loss(self, loss: torch.Tensor) -> None:
        """Add a loss at the start of its backward. The first one opens the step."""
        if is_capturing():
            return
        step = self._open
        if step is None:
            step = self._open = PendingStep(Reading(self._boards), self._passes.current)
        if loss.numel() != 1 or len(step.losses) >= LOSSES:
            return
        plain = loss.detach()
        step.losses.append(plain)
        step.structures.append(structure_of(loss))
        step.reading.put_loss(plain)
        held: dict[Value, torch.Tensor] = {}
        loose = self._passes.loose_handles()
        if loose:
            # When the values arrive, these variables belong to another step.
            frames = user_frames(sys._getframe(1))
            found = {value: handle.follow(frames) for value, handle in loose}
            held = {
                value: each
                for value, each in found.items()
                if each is not None and (is_data(each) or each.is_leaf)
            }
        step.variables.append(held)

    def flag_gradients(self, gradients: Sequence[torch.Tensor]) -> None:
        self._flag(GRADIENTS, gradients)

    def flag_statistics(self, tensors: Sequence[torch.Tensor]) -> None:
        now = self._passes.current
        if self._open is not None:
            self._flag(STATISTICS, tensors)
        elif now.trained and not is_capturing():
            # The program skipped this batch, which may still have changed running statistics.
            self._open = PendingStep(Reading(self._boards), now)
            self._flag(STATISTICS, tensors)
            self.close()
            self._passes.copy_changed()

    def flag_weights(self, weights: Sequence[torch.Tensor]) -> None:
        self._flag(WEIGHTS, weights)

    def _flag(self, place: int, tensors: Sequence[torch.Tensor]) -> None:
        # Distributed and quantized tensors have their own types, and may communicate when read.
        plain = [each.data for each in tensors if type(each) in PLAIN]
        if self._open is not None and plain and not is_capturing():
            self._open.reading.flag(place, plain)

    def updates(self, optimizer: Optimizer, weights: Sequence[torch.Tensor]) -> None:
        """Copy the weights that an optimizer is about to change, for the steps that are kept."""
        if self._open is None or is_capturing():
            return
        self._open.optimizer = weakref.ref(optimizer)
        kept = [each for each in (*self._queue, self._open) if each.now.has_leaves]
        if sum(each.nbytes for each in weights if type(each) in PLAIN) <= LARGEST_WEIGHTS:
            if not self._open.is_updated:
                self._updates += 1
            room, key = self._rooms[self._updates % ROOMS], id(optimizer)
            with torch.no_grad():
                room[key] = copied(weights, room.get(key, []))
            before = dict(zip(map(id, weights), room[key], strict=True))
            for step in kept:
                # Another optimizer may have stepped in the same pass; an older step has its own
                # copies.
                if not step.is_updated or step is self._open:
                    step.weights = {**before, **(step.weights or {})}
        for step in kept:
            step.is_updated = True

    def close(self) -> None:
        """End the pass: send its values to the host, and keep what a replay needs."""
        step, self._open = self._open, None
        if step is None:
            return
        if is_capturing():
            step.reading.give_back()
            return
        step.reading.send()
        now, step.sites = self._passes.current, self.last_sites()
        step.now = copy(now)
        step.now.is_over = step.now.has_leaves = True
        # The copies of running statistics belong to this step; the next one makes its own.
        now.copies, self._spare = self._spare, {}
        leaves = [*_leaves(step)]
        if self._has_room(leaves):
            step.versions = [(each, _version(each)) for each in leaves]
        else:
            self._release(step)
        self._queue.append(step)
        if len(self._queue) > MOST_KEPT:
            self._release(self._queue[-1 - MOST_KEPT])

    def _has_room(self, leaves: Sequence[torch.Tensor]) -> bool:
        """Whether two steps' leaves fit in memory. Asked again only for more bytes than before."""
        on_device = [each for each in leaves if each.device.type not in HOST_TYPES]
        size = sum(each.nbytes for each in on_device)
        if size <= self._fits:
            return True
        if size >= self._fits_not:
            return False
        if all(has_room(each, MOST_KEPT * size) for each in {each.device for each in on_device}):
            self._fits = size
            return True
        self._fits_not = size
        return False

    # Steps whose values have arrived.

    def arrived(self) -> PendingStep | None:
        """The oldest step, if its values have arrived."""
        return self._queue[0] if self._queue and self._queue[0].reading.has_arrived() else None

    def wait(self) -> PendingStep | None:
        """The oldest step, once its values have arrived. This blocks."""
        if not self._queue:
            return None
        self._queue[0].reading.wait()
        return self._queue[0]

    def take(self) -> PendingStep:
        """Remove the oldest step, which has been read and will be diagnosed."""
        step = self._queue.popleft()
        step.reading.give_back()
        return step

    def retire(self) -> None:
        """Remove the oldest step, which has been read and is fine."""
        self._release(self.take())

    def _release(self, step: PendingStep) -> None:
        if step.now.copies:
            self._spare, step.now.copies = step.now.copies, {}
        step.release()


def _leaves(step: PendingStep) -> Iterator[torch.Tensor]:
    for _, data in step.now.deliveries:
        yield from (each for _, each in leaves_of(data) if isinstance(each, torch.Tensor))
    for entry in step.now.entries:
        yield from (each for each in entry if each is not None)
    for held in step.variables:
        # Weights are changed by the update, and have their own copies.
        yield from (each for each in held.values() if is_data(each))


def _stand_ins(
    lost: Sequence[torch.Tensor], names: Sequence[str]
) -> dict[int, torch.Tensor] | None:
    """Newly initialized values for lost weights. None if the device has no room for them."""
    devices = {each.device for each in lost}
    if not all(
        has_room(device, sum(each.nbytes for each in lost if each.device == device))
        for device in devices
    ):
        return None
    draws = torch.Generator(device="cpu").manual_seed(0)
    found: dict[int, torch.Tensor] = {}
    for weight, name in zip(lost, names, strict=True):
        if weight.dim() >= 2:
            scale = max(weight[0].numel(), 1) ** -0.5
            stand_in = torch.randn(weight.shape, generator=draws, device="cpu") * scale
        else:
            stand_in = torch.full(weight.shape, 0.0 if name.endswith("bias") else 1.0, device="cpu")
        found[id(weight)] = stand_in.to(weight.device, weight.dtype)
    return found


def _version(tensor: torch.Tensor) -> int:
    try:
        return int(tensor._version)
    except RuntimeError:
        # Made in inference mode.
        return -1
