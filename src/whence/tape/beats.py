"""When the program did what, by autograd's own count: which optimizer stepped, when backward ran, and at which lines.

Autograd numbers its nodes in the order in which they are made, whether anybody records or not. A node that is found later
tells by its number what has happened since, in a run of which nothing was recorded for hours.
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
"""As little as can be: this is done in every step."""


@dataclass(frozen=True, slots=True)
class Beat:
    """A step of an optimizer, or a backward."""

    before: int
    """The number of the first node that was not there yet."""
    site: Site
    optimizer: Optimizer | None
    """Who stepped; None for a backward, and for an optimizer that is gone."""


class _Usual:
    """Where the last one was called for: how many frames up the stack, and by which instruction of which code."""

    __slots__ = ("code", "distance", "instruction", "site")

    def __init__(self) -> None:
        self.distance = 0
        self.code: CodeType | None = None
        self.instruction = -1
        self.site: Site | None = None


class Beats:
    """The last of them. Bounded; keeps nothing of the program's alive."""

    def __init__(self) -> None:
        self._steps: deque[_Kept] = deque(maxlen=MOST_BEATS)
        self._backwards: deque[_Kept] = deque(maxlen=MOST_BEATS)
        """Those that freed their graphs."""
        self.is_running = False
        """Whether a backward is under way that frees its graph. Nobody need say so when it has ended before something else is done."""
        self._sites: dict[tuple[int, int], Site] = {}
        """By code and instruction: which line that is takes long to find out, and it is the same in each step."""
        self._usual_step, self._usual_backward = _Usual(), _Usual()

    def stepped(self, optimizer: Optimizer, frame: FrameType | None) -> None:
        site = self._site(self._usual_step, frame)
        if site is not None:
            self._steps.append((next_node_number(), weakref.ref(optimizer), site))

    def backward_began(self, frame: FrameType | None, keeps_graph: bool) -> None:
        """Of one that keeps its graph nothing can come."""
        self.is_running = not keeps_graph
        site = self._site(self._usual_backward, frame) if not keeps_graph else None
        if site is not None:
            self._backwards.append((next_node_number(), None, site))

    def _site(self, usual: _Usual, frame: FrameType | None) -> Site | None:
        """The line of the program's own. In nearly all steps it is that of the step before, as far up the stack."""
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
        # No other code can come to have this number: the site keeps it alive.
        key = id(frame.f_code), frame.f_lasti
        site = self._sites.get(key)
        if site is None or site.f_globals is not frame.f_globals:
            if len(self._sites) >= MOST_BEATS:
                self._sites.clear()
            site = self._sites[key] = Site.of(frame)
        usual.site = site
        return site

    def steps_since(self, number: int) -> Iterator[Beat]:
        """The steps that were made after a node, the first one first."""
        return (_shown(each) for each in self._steps if each[0] > number)

    def step_of(self, weight: torch.Tensor, number: int) -> Beat | None:
        """The first step after a node of an optimizer that owns a weight, or the memory behind it."""
        memory = storage_of(weight)
        for beat in self.steps_since(number):
            groups = beat.optimizer.param_groups if beat.optimizer is not None else ()
            if memory and any(
                storage_of(each) == memory for group in groups for each in group["params"]
            ):
                return beat
        return None

    def last_sites(self) -> tuple[Site | None, Site | None]:
        """Where the last backward and the last step were called for."""
        return self._backwards[-1][2] if self._backwards else None, self._steps[-1][
            2
        ] if self._steps else None

    def last_backwards(self) -> list[Site]:
        """Where the last two were called for, the later one first."""
        return [_shown(each).site for each in list(self._backwards)[:-3:-1]]

    def backward_since(self, number: int) -> Beat | None:
        """The first backward that freed its graph and began after a node was made; not the one that is running."""
        begun = list(self._backwards)[: -1 if self.is_running else None]
        return next((_shown(each) for each in begun if each[0] > number), None)


def _shown(kept: _Kept) -> Beat:
    before, optimizer, site = kept
    return Beat(before, site, optimizer() if optimizer is not None else None)
