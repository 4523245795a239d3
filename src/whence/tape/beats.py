"""When optimizers stepped and backward ran, by autograd's own count, and at which lines.

Autograd numbers its nodes in the order of their creation, whether or not anything is recorded. The
number of a node that is found later shows what has happened since, even in a run of which nothing
was recorded for hours.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType

import torch
from torch.optim import Optimizer

from whence.source.sites import Site, is_library
from whence.tape.tape import storage_of
from whence.torch_internals import next_node_number

MOST_BEATS = 256


_Kept = tuple[int, "weakref.ref[Optimizer] | None", Site]
"""As small as possible: one is created in every step."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A step of an optimizer, or a backward."""

    before: int
    """The number of the first node that did not exist yet."""
    site: Site
    optimizer: Optimizer | None
    """The optimizer that stepped; None for a backward, and for an optimizer that is gone."""


class _Usual:
    """Where the last call was made: the distance up the stack, the code and the instruction."""

    __slots__ = ("code", "distance", "instruction", "site")

    def __init__(self) -> None:
        self.distance = 0
        self.code: CodeType | None = None
        self.instruction = -1
        self.site: Site | None = None


class Beats:
    """The most recent steps and backwards. Bounded; keeps no object of the program alive."""

    def __init__(self) -> None:
        self._steps: deque[_Kept] = deque(maxlen=MOST_BEATS)
        self._backwards: deque[_Kept] = deque(maxlen=MOST_BEATS)
        """Backwards that freed their graphs."""
        self.is_running = False
        """Whether a backward that frees its graph is running. Its end may be noticed late."""
        self._sites: dict[tuple[int, int], Site] = {}
        """By code and instruction: the line is slow to compute, and is the same in each step."""
        self._usual_step, self._usual_backward = _Usual(), _Usual()

    def stepped(self, optimizer: Optimizer, frame: FrameType | None) -> None:
        site = self._site(self._usual_step, frame)
        if site is not None:
            self._steps.append((next_node_number(), weakref.ref(optimizer), site))

    def backward_began(self, frame: FrameType | None, keeps_graph: bool) -> None:
        """Note a backward that frees its graph; one that keeps its graph is not recorded."""
        self.is_running = not keeps_graph
        site = self._site(self._usual_backward, frame) if not keeps_graph else None
        if site is not None:
            self._backwards.append((next_node_number(), None, site))

    def _site(self, usual: _Usual, frame: FrameType | None) -> Site | None:
        """Return the program's line.

        In nearly all steps it is the line of the previous step, at the same depth of the stack.
        """
        near = frame
        for _ in range(usual.distance):
            near = near.f_back if near is not None else None
        if near is not None and near.f_code is usual.code and near.f_lasti == usual.instruction:
            return usual.site
        distance = 0
        while frame is not None and is_library(frame.f_code.co_filename):
            frame = frame.f_back
            distance += 1
        if frame is None:
            return None
        usual.distance, usual.code, usual.instruction = distance, frame.f_code, frame.f_lasti
        # The site keeps the code alive, so its identity stays unique.
        key = id(frame.f_code), frame.f_lasti
        site = self._sites.get(key)
        if site is None or site.f_globals is not frame.f_globals:
            if len(self._sites) >= MOST_BEATS:
                self._sites.clear()
            site = self._sites[key] = Site.of(frame)
        usual.site = site
        return site

    def steps_since(self, number: int) -> Iterator[Beat]:
        """Return the steps made after a node, oldest first."""
        return (_shown(each) for each in self._steps if each[0] > number)

    def step_of(self, weight: torch.Tensor, number: int) -> Beat | None:
        """Return the first step after a node by an optimizer that owns a weight or its memory."""
        memory = storage_of(weight)
        for beat in self.steps_since(number):
            groups = beat.optimizer.param_groups if beat.optimizer is not None else ()
            if memory and any(
                storage_of(each) == memory for group in groups for each in group["params"]
            ):
                return beat
        return None

    def last_sites(self) -> tuple[Site | None, Site | None]:
        """Return where the last backward and the last step were called."""
        return self._backwards[-1][2] if self._backwards else None, self._steps[-1][
            2
        ] if self._steps else None

    def last_backwards(self) -> list[Site]:
        """Return where the last two backwards were called, the later one first."""
        return [_shown(each).site for each in list(self._backwards)[:-3:-1]]

    def backward_since(self, number: int) -> Beat | None:
        """Return the first backward since a node that freed its graph, except the running one."""
        begun = list(self._backwards)[: -1 if self.is_running else None]
        return next((_shown(each) for each in begun if each[0] > number), None)


def _shown(kept: _Kept) -> Beat:
    before, optimizer, site = kept
    return Beat(before, site, optimizer() if optimizer is not None else None)
