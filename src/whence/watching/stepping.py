"""Manual steps: the program changes its weights in place, or makes new ones from gradients."""

from __future__ import annotations

from typing import Protocol

import torch

from whence.tape.hand import weights_under
from whence.tape.passes import PassBook
from whence.tape.replay import trouble_in
from whence.tape.tape import Call, Tape
from whence.watching.pacing import Pace
from whence.watching.tripwires import Tripwires


class Host(Protocol):
    step: int
    tape: Tape

    def stepped_by_hand(self) -> None: ...


class HandSteps:
    """Detects manual steps, each of which begins the next pass. One for each watch."""

    def __init__(self, host: Host, passes: PassBook, tripwires: Tripwires, pace: Pace) -> None:
        self.host = host
        self.passes = passes
        self.tripwires = tripwires
        self.pace = pace
        self._paced = 0
        self._last_node = self._nodes = 0

    def call_begins(self, call: Call) -> None:
        """Check a recorded call: it may be the first to use the weights of the next step."""
        is_use = call.phase == "program" and call.grad_mode and ".__" not in call.name
        weight = next(filter(self.passes.hand.is_next, call.operands), None) if is_use else None
        if weight is not None:
            self.host.stepped_by_hand()
            self.tripwires.next_pass(spoilt=bool(trouble_in(weight.tensor)))
            call.step = self.host.step

    def look(self) -> None:
        """Check at any other time whether weights have changed since the last backward."""
        if self.passes.hand.on and self.passes.hand.has_moved():
            self.host.stepped_by_hand()
            if self.passes.current.backwards:
                self.tripwires.next_pass()

    def backward_begins(self, loss: torch.Tensor) -> None:
        """Detect a step without recording or modules, which shows only at its backward."""
        hand, now = self.passes.hand, self.passes.current
        shows_late = (
            bool(now.backwards) and not now.recorded and not (now.trained and self.pace.modules.on)
        )
        has_moved = shows_late and hand.has_moved()
        weights = (
            hand.weights()
            if has_moved and not self._is_another_graph(loss)
            else weights_under(loss)
        )
        if has_moved or (shows_late and hand.are_others(weights)):
            self.host.stepped_by_hand()
            self.tripwires.next_pass(late=True, spoilt=bool(trouble_in(loss)))
        hand.note(weights, self.host.tape.count)
        if self._paced < self.host.step:
            self._paced = self.host.step
            self.tripwires.update.after_by_hand(weights)
            self.pace.step_made()
            self.passes.current.recorded = self.passes.current.recorded and self.pace.recording()

    def _is_another_graph(self, loss: torch.Tensor) -> bool:
        """Whether the node count since the last loss differs: it may depend on new weights."""
        node = loss.grad_fn
        last, self._last_node = self._last_node, node._sequence_nr() if node is not None else 0
        made, self._nodes = self._nodes, self._last_node - last
        return made != self._nodes
