"""Steps by `torch.func`, which call neither backward nor an optimizer.

The results of a transform are checked as they are returned. If they are not finite although the
inputs were, the function is run again without the transform, in a child process, as a step that is
recorded from its start.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from whence.finding import Finding
from whence.lineage.eagerly import Eagerly
from whence.repro import Repro
from whence.rerun.child import NotPossible, run_in_child
from whence.rerun.permission import Need
from whence.tape.passes import PassBook
from whence.tape.replay import trouble_in
from whence.tape.transform import Transform
from whence.torch_internals import tree_leaves
from whence.watching.tripwires import Tripwires

PATIENCE_SECONDS = 30.0
MOST_PLACES = 4


class Host(Protocol):
    step: int

    def stepped_by_hand(self) -> None: ...
    def recording_eagerly(self) -> AbstractContextManager[None]: ...


class Found(Exception):
    """Raised to stop a rerun that has found the origin."""


class FunctionalSteps:
    """Watches the transforms of one watch."""

    def __init__(self, host: Host, passes: PassBook, tripwires: Tripwires) -> None:
        self.host = host
        self.passes = passes
        self.tripwires = tripwires
        self._bad_inputs: dict[int, torch.Tensor] = {}
        self._born: dict[int, list[Finding]] = {}
        """The findings for each input position, from when it was first not finite."""
        self.open = False
        """Whether gradients were computed in the current step."""

    def began(self, transform: Transform) -> None:
        # Only read: unlike gradients, inputs may be in read-only memory.
        given = _tensors((transform.args, transform.kwargs))
        self._bad_inputs = {place: each for place, each in enumerate(given) if trouble_in(each)}
        if self.open and self.passes.hand.on:
            self.open = False
            self.host.stepped_by_hand()
            self.tripwires.next_pass(spoilt=bool(self._bad_inputs))
        for place, tensor in self._bad_inputs.items():
            if place not in self._born and len(self._born) < MOST_PLACES:
                # It may take long before a result shows it.
                self._born[place] = self.tripwires.spoilt(tensor, given)

    def ended(self, transform: Transform, result: Any) -> None:
        bad_inputs, self._bad_inputs = self._bad_inputs, {}
        if not transform.gradients:
            return
        gradients = _tensors(result)
        is_fine = not any(map(trouble_in, gradients))
        if self.passes.hand.on:
            self.open = self.tripwires.trained = True
            self.passes.hand.note_given(gradients)
            if is_fine and not bad_inputs:
                self.passes.hand.before.keep_function(
                    _tensors((transform.args, transform.kwargs)), result
                )
        if is_fine:
            return
        if bad_inputs:
            known = [
                each for place, found in self._born.items() if place in bad_inputs for each in found
            ]
            self.tripwires.input_spoilt(known[-1:])
        elif self.tripwires.may_ask():
            try:
                findings, repros = run_in_child(
                    lambda: self._diagnose(transform), PATIENCE_SECONDS, need=Need.TRANSFORMED
                )
            except NotPossible:
                return
            self.tripwires.hold(findings, repros)

    def _diagnose(self, transform: Transform) -> tuple[list[Finding], list[Repro | None]]:
        torch.set_rng_state(transform.state)
        self.tripwires.manner = "the function was run again without torch.func"
        watch = _Watch(self.tripwires, self.passes, self.host.step)
        with self.host.recording_eagerly():
            try:
                Eagerly(watch).run(transform.name, transform.args, transform.kwargs)
            except Found:
                pass
        findings = self.tripwires.suspected()
        return findings, [self.tripwires.diagnoser.repros.get(each) for each in findings]


class _Watch:
    def __init__(self, tripwires: Tripwires, passes: PassBook, step: int) -> None:
        self._tripwires = tripwires
        self._passes = passes
        self._step = step

    def begins(self, weights: dict[str, torch.Tensor]) -> None:
        self._tripwires.next_pass()
        self._tripwires.telling.labels = {id(each): name for name, each in weights.items()}
        self._passes.begin(self._step, recording=True)

    def has_loss(self, loss: torch.Tensor) -> None:
        self._tripwires.backward_began([loss])

    def has_gradients(
        self, weights: list[torch.Tensor], gradients: list[torch.Tensor | None]
    ) -> None:
        self._tripwires.backward_ended(weights, gradients)
        if self._tripwires.suspected():
            raise Found


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [
        each
        for each in tree_leaves(tree)
        if isinstance(each, torch.Tensor)
        and each.is_floating_point()
        and each.layout is torch.strided
        and not each.is_meta
    ]
