"""Recurrent layers whose state does not fit their input."""

from __future__ import annotations

import ast
from dataclasses import dataclass

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.ancestry import origin_call
from whence.lineage.constructors import size_given
from whence.lineage.properties import HasAxis
from whence.lineage.trail import Trail, trace
from whence.rules.operations import EXCHANGES, RECURRENT
from whence.rules.refusals import refusing
from whence.rules.rule import rule
from whence.rules.shape.ctc import swapped_for_ctc
from whence.rules.telling import describe, failure_finding, has_worked, layer_text, shape_text
from whence.source.edits import diff_of, give_by_name
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.tape import Call


@dataclass(frozen=True, slots=True)
class Given:
    """The input of a recurrent layer, and the state that it rejects."""

    layer: nn.RNNBase
    input: torch.Tensor
    """For a packed sequence, its data."""
    state: torch.Tensor
    expected: tuple[int, ...]
    """The state's shape as the layer computes it: (layers * directions, batch, size)."""

    @property
    def batch(self) -> int:
        return self.expected[1]

    @property
    def time(self) -> int | None:
        """None for a packed input, where each sample has its own length."""
        return (
            self.input.shape[1 if self.layer.batch_first else 0] if self.input.dim() == 3 else None
        )


def _state(failed: FailedCall) -> Given | None:
    names = refusing(failed, nn.RNNBase, "check_hidden_size")
    given = failed.argument(0, "input")
    state, expected = (
        (names.get("hx"), names.get("expected_hidden_size")) if names is not None else (None, None)
    )
    if (
        not isinstance(given, torch.Tensor)
        or not isinstance(state, torch.Tensor)
        or not isinstance(expected, tuple)
    ):
        return None
    return (
        Given(failed.layer, given, state, expected)
        if isinstance(failed.layer, nn.RNNBase) and state.dim() == 3
        else None
    )


@rule("shape/hidden-state")
def hidden_state(failed: FailedCall) -> Finding | None:
    """A recurrent state has the wrong batch size, number of layers, or size.

    What happened
        An LSTM, GRU or RNN received a hidden state whose batch axis differs from the input's. Or
        the state is for another number of layers (two per layer if bidirectional), has another
        hidden size, or has its axes in another order.
    Why it matters
        It works until the first batch of another size, usually the last of the epoch or the first
        of validation.
    How it is detected
        The state is compared with the shape that the layer expects for this input. The axis that
        differs is traced to the line that made it.
    How to fix it
        Size the state from the input, x.size(0), or pass no state: the layer starts with zeros.
    When it stays silent
        Stateful networks whose batches all have the same size.
    Cost
        None until a call raises.
    """
    found = _state(failed)
    if found is None:
        return None
    layer, given, state, batch = found.layer, found.input, found.state, found.batch
    if state.shape[1] == batch or tuple(state.shape) == (
        batch,
        found.expected[0],
        found.expected[2],
    ):
        return _other_axes(failed, found)
    if state.shape[1] == found.time and not _is_time_first(failed, layer, given):
        return None
    made = origin_call(failed.value(state))
    carried = made is not None and made.name in RECURRENT
    trail = None if carried else trace(failed.value(state), HasAxis(-2, state.shape[1]), failed)
    path = failed.modules.path_of(layer)
    return failure_finding(
        failed,
        "shape/hidden-state",
        verdict=f"{path} expects a hidden state for a batch of {batch}, got {state.shape[1]}",
        trail=trail,
        spot=_where_passed(failed)
        if carried
        else _where_sized(made, trail)
        if has_worked(failed)
        else None,
        why=f"{layer_text(layer, path)} keeps one state per sample. "
        f"{_what_changed(failed, batch)}".rstrip(),
        fix="Size the state from the input (x.size(0)) where it is created, or pass no state: the "
        "layer then starts with zeros.",
        operands=(Operand("input", describe(given)), Operand("state", describe(state))),
        counterfactual=f"the layer's own check expects a state for {batch} samples",
    )


def _other_axes(failed: FailedCall, found: Given) -> Finding | None:
    """The batch size is right, or on the layer axis; the number of layers or the size is wrong."""
    layer, state, expected = found.layer, found.state, found.expected
    made = failed.value(state).call
    here = Spot.of_site(made.site) if made is not None and made.site is not None else None
    path = failed.modules.path_of(layer)
    both = " with two directions" if layer.bidirectional else ""
    if state.shape[1] != found.batch:
        trail, what = None, f"expected {shape_text(expected)}, got {shape_text(state.shape)}"
        why = "A state is (layers, batch, size), even with batch_first=True."
        fix = f"Put the layer axis first in the state: {shape_text(expected)}."
    elif state.shape[0] != expected[0]:
        trail = trace(failed.value(state), HasAxis(-3, state.shape[0]), failed)
        what = f"expected size {expected[0]} on axis 0, got {state.shape[0]}"
        why = (
            f"{layer_text(layer, path)} keeps one state per layer and direction: "
            f"{_layers(layer.num_layers)}{both}."
        )
        fix = (
            f"Create the state for {expected[0]} (num_layers{' * 2' if both else ''}), "
            "or pass no state: the layer then starts with zeros."
        )
    else:
        # A newly created tensor states its own size; tracing could find an equal size elsewhere.
        trail = (
            trace(failed.value(state), HasAxis(-1, state.shape[2]), failed)
            if made and made.operands
            else None
        )
        what = f"expected {expected[2]} values per sample, got {state.shape[2]}"
        why = f"{layer_text(layer, path)} keeps {expected[2]} values per sample in this state."
        fix = f"Create the state with a last axis of {expected[2]}."
    return failure_finding(
        failed,
        "shape/hidden-state",
        verdict=f"hidden state of {path}: {what}",
        trail=trail,
        spot=here if trail is None else None,
        why=why,
        fix=fix,
        operands=(Operand("input", describe(found.input)), Operand("state", describe(state))),
        counterfactual=f"the layer's own check expects {shape_text(expected)}",
    )


def _layers(number: int) -> str:
    return f"{number} layer{'s' if number > 1 else ''}"


def _where_sized(made: Call | None, trail: Trail | None) -> Spot | None:
    """Where the caller passed the number of samples for which the state was created."""
    if made is not None:
        return size_given(made, -2)
    return trail.sized if trail is not None else None


def _where_passed(failed: FailedCall) -> Spot | None:
    """Where the loop passes on the state of earlier batches: the outermost call of the model."""
    stack = failed.call.stack
    forwards = [number for number, site in enumerate(stack) if site.function == "forward"]
    outside = forwards[-1] + 1 if forwards else 0
    return Spot.of_site(stack[min(outside, len(stack) - 1)]) if stack else None


def _what_changed(failed: FailedCall, batch: int) -> str:
    current = failed.loaders.current
    size = current.info.batch_size if current is not None else None
    length = current.info.length() if current is not None else None
    if size and length and batch == length % size:
        return f"{length} samples in batches of {size} leave {batch} for the last batch."
    return ""


def _is_time_first(failed: FailedCall, layer: nn.RNNBase, given: torch.Tensor) -> bool:
    """Whether the program has transposed the input itself for a layer that expects time first."""
    made = failed.value(given).call
    return not layer.batch_first and made is not None and made.name in EXCHANGES


@rule("shape/batch-first")
def batch_first(failed: FailedCall) -> Finding | None:
    """Batch and time are swapped.

    What happened
        A recurrent layer without batch_first=True received (batch, time, features); its hidden
        state, created for the batch, shows the mistake. Or ctc_loss received
        (batch, time, classes) with lengths for the batch.
    Why it matters
        Without the state nothing raises, and samples are read as time steps of one sequence.
    How it is detected
        The state's batch axis matches the input's time axis and not its batch axis. If nothing
        raises: a recurrent or attention layer, a hand-written loop or a cumulative sum runs along
        the batch axis, and in a replay the result of one sample depends on other samples.
    How to fix it
        Pass batch_first=True to the constructor, or transpose before the layer.
    When it stays silent
        If the state fits the axis that the layer reads as the batch, or the program itself puts
        time first. Loops and sums over samples that are in order or were sorted.
    Cost
        None until a call raises.
    """
    found = _state(failed)
    if found is None:
        return swapped_for_ctc(failed)
    layer, given, state = found.layer, found.input, found.state
    if state.shape[1] == found.batch or state.shape[1] != found.time:
        return None
    if _is_time_first(failed, layer, given):
        return None
    stack = failed.modules.built_at(layer)
    spot = Spot.of_site(stack[0]) if stack else None
    path = failed.modules.path_of(layer)
    reads = "(batch, time, features)" if layer.batch_first else "(time, batch, features)"
    return failure_finding(
        failed,
        "shape/batch-first",
        verdict=f"{path} reads the {found.batch} time steps as the batch",
        spot=spot,
        why=f"{layer_text(layer, path)} reads its input as {reads}. The state is for "
        f"{state.shape[1]} samples, which is the size of the input's time axis.",
        fix="Build the layer with batch_first=True."
        if not layer.batch_first
        else "Pass the input as (batch, time, features).",
        patch=batch_first_patch(spot) if not layer.batch_first else None,
        operands=(Operand("input", describe(given)), Operand("state", describe(state))),
        counterfactual="with the input's first two axes swapped the state fits",
    )


def batch_first_patch(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    return diff_of(give_by_name(spot.filename, node, "batch_first", "True"))
