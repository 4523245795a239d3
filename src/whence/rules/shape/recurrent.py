"""Recurrent layers whose state does not fit their input."""

from __future__ import annotations

import ast

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.ancestry import origin_call
from whence.lineage.constructors import size_given
from whence.lineage.properties import HasAxis
from whence.lineage.trail import Trail, trace
from whence.rules.operations import RECURRENT
from whence.rules.rule import rule
from whence.rules.telling import describe, has_worked, layer_text, tell
from whence.source.edits import diff_of, give_by_name
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.tape import Call

EXCHANGES = frozenset({"transpose", "permute", "swapaxes", "swapdims", "movedim"})


def _state(failed: FailedCall) -> tuple[nn.RNNBase, torch.Tensor, torch.Tensor] | None:
    """The layer, its input and its (first) hidden state."""
    layer = failed.layer
    if not isinstance(layer, nn.RNNBase):
        return None
    given, state = failed.argument(0, "input"), failed.argument(1, "hx")
    if isinstance(state, tuple | list) and state:
        state = state[0]
    if isinstance(given, torch.Tensor) and isinstance(state, torch.Tensor) and given.dim() == 3 and state.dim() == 3:
        return layer, given, state
    return None


@rule("shape/hidden-state")
def hidden_state(failed: FailedCall) -> Finding | None:
    """A recurrent state was sized for another batch.

    What happened
        An LSTM, GRU or RNN was given a hidden state whose batch axis is not that of the input.
    Why it matters
        It works until the first batch of another size, usually the last one of the epoch, or the first of validation.
    How it is detected
        The batch axes of input and state; the state's is followed back to the line that made it.
    How to fix it
        Size the state from the input, x.size(0), or let the layer make it by passing none.
    When it stays silent
        Stateful networks whose batches all have the same size.
    Cost
        None until a call raises.
    """
    found = _state(failed)
    if found is None:
        return None
    layer, given, state = found
    batch = given.shape[0 if layer.batch_first else 1]
    other = given.shape[1 if layer.batch_first else 0]
    if state.shape[1] == batch or (state.shape[1] == other and not _is_time_first(failed, layer, given)):
        return None
    made = origin_call(failed.value(state))
    carried = made is not None and made.name in RECURRENT
    trail = None if carried else trace(failed.value(state), HasAxis(-2, state.shape[1]), failed)
    path = failed.modules.path_of(layer)
    return tell(
        failed,
        "shape/hidden-state",
        verdict=f"the hidden state of {path} is for a batch of {state.shape[1]}, the input has {batch}",
        trail=trail,
        spot=_where_passed(failed) if carried else _where_sized(made, trail) if has_worked(failed) else None,
        why=f"{layer_text(layer, path)} keeps one state per sample. {_what_changed(failed, batch)}".rstrip(),
        fix="Size the state from the input (x.size(0)) where it is made, or pass none and let the layer begin with zeros.",
        operands=(Operand("input", describe(given)), Operand("state", describe(state))),
        counterfactual=f"the layer itself says what it expects: a state for {batch} samples",
    )


def _where_sized(made: Call | None, trail: Trail | None) -> Spot | None:
    """Where somebody else said for how many samples the state is to be."""
    if made is not None:
        return size_given(made, -2)
    return trail.sized if trail is not None else None


def _where_passed(failed: FailedCall) -> Spot | None:
    """Where the loop hands a state of earlier batches on: the outermost model call of the failing stack."""
    stack = failed.call.stack
    forwards = [number for number, site in enumerate(stack) if site.function == "forward"]
    outside = forwards[-1] + 1 if forwards else 0
    return Spot.of_site(stack[min(outside, len(stack) - 1)]) if stack else None


def _what_changed(failed: FailedCall, batch: int) -> str:
    current = failed.loaders.current
    size = current.info.batch_size if current is not None else None
    length = current.info.length() if current is not None else None
    if size and length and batch == length % size:
        return f"{length} samples in batches of {size} leave {batch} for the last one."
    return ""


def _is_time_first(failed: FailedCall, layer: nn.RNNBase, given: torch.Tensor) -> bool:
    """The program has exchanged the axes itself, for a layer that wants time first: the input is as it is to be."""
    made = failed.value(given).call
    return not layer.batch_first and made is not None and made.name in EXCHANGES


@rule("shape/batch-first")
def batch_first(failed: FailedCall) -> Finding | None:
    """Batch and time are swapped.

    What happened
        A recurrent layer without batch_first=True was given (batch, time, features); its hidden state, made for the
        batch, shows the mistake.
    Why it matters
        Without the state nothing would have raised: samples would have been read as time steps of one another.
    How it is detected
        The state's batch axis fits the input's axis for time, and not the one for the batch.
    How to fix it
        batch_first=True in the constructor, or a transpose in front of the layer.
    When it stays silent
        When the state fits the axis that the layer takes for the batch, or the program has put time first itself.
    Cost
        None until a call raises.
    """
    found = _state(failed)
    if found is None:
        return None
    layer, given, state = found
    batch_axis = 0 if layer.batch_first else 1
    if state.shape[1] == given.shape[batch_axis] or state.shape[1] != given.shape[1 - batch_axis]:
        return None
    if _is_time_first(failed, layer, given):
        return None
    stack = failed.modules.built_at(layer)
    spot = Spot.of_site(stack[0]) if stack else None
    path = failed.modules.path_of(layer)
    reads = "(batch, time, features)" if layer.batch_first else "(time, batch, features)"
    return tell(
        failed,
        "shape/batch-first",
        verdict=f"{path} takes the {given.shape[batch_axis]} time steps for the batch",
        spot=spot,
        why=f"{layer_text(layer, path)} reads its input as {reads}. The state was made for {state.shape[1]} samples, and "
        f"{state.shape[1]} is the size of the input's other axis.",
        fix="Build the layer with batch_first=True."
        if not layer.batch_first
        else "Give the layer (batch, time, features).",
        patch=batch_first_patch(spot) if not layer.batch_first else None,
        operands=(Operand("input", describe(given)), Operand("state", describe(state))),
        counterfactual="with the input's first two axes exchanged the state fits",
    )


def batch_first_patch(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Call):
        return None
    return diff_of(give_by_name(spot.filename, node, "batch_first", "True"))
