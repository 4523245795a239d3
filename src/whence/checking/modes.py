"""Train and eval mode differ only where they should, and eval mode is deterministic."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import nn

from whence.checking.calling import ModelCall
from whence.checking.places import place_of_class, place_of_site
from whence.checking.recording import recording
from whence.checking.structure import real_tensors
from whence.checking.subject import Subject, forward, largest_difference
from whence.checking.verdict import Verdict, failed, listed, passed, unchecked, warning
from whence.tape.replay import same_bits
from whence.tape.slices import may_draw
from whence.tape.tape import Call
from whence.torch_internals import Dropout, RunningNorm

TOLERANCE = 1e-4
BY_MODE = (
    RunningNorm,
    Dropout,
    nn.RReLU,
    nn.FractionalMaxPool2d,
    nn.FractionalMaxPool3d,
)  # fmt: skip


def check_modes(subject: Subject) -> Verdict:
    call = subject.call()
    if call is None or not real_tensors(call.output):
        return unchecked(
            "the loss does not call the model itself, or the model returns no floating-point "
            "tensors"
        )
    model = subject.fresh().model.eval()
    held = {name: each.clone() for name, each in model.named_buffers()}
    first, second = (forward(model, call.args, call.kwargs) for _ in range(2))
    notes: list[str] = []
    if (change := largest_difference(first, second)) > TOLERANCE:
        written = [name for name, each in model.named_buffers() if not same_bits(each, held[name])]
        if not written:
            return _keeps_state(subject, change)
        notes.append(
            f"forward changes the buffers {listed(written)} in eval mode too, so two passes differ"
        )
    other = forward(subject.fresh().model.eval(), call.args, call.kwargs, number=1)
    if largest_difference(first, other) > 0:
        verdict = _draws(subject, call, notes)
        if verdict is not None:
            return verdict
    return _train_and_eval(subject, call, first, notes)


def _keeps_state(subject: Subject, change: float) -> Verdict:
    return warning(
        f"two passes in eval mode with the same input and random numbers differ by {change:.1e}",
        why=(
            "The model keeps state between passes, such as a hidden state or a cache, so "
            "predictions depend on earlier inputs."
        ),
        fix="Reset the state at the start of forward, or pass it as an argument.",
        place=place_of_class(type(subject.given.model)),
    )


def _draws(subject: Subject, call: ModelCall, notes: list[str]) -> Verdict | None:
    """Judge random numbers in eval mode: dropout is a mistake, sampling is the model's business."""
    with recording() as seen:
        forward(subject.fresh().model.eval(), call.args, call.kwargs)
    draws = [each for each in seen.calls if may_draw(each)]
    dropping = next((each for each in draws if _drops(each)), None)
    if dropping is not None:
        return failed(
            f"{dropping.name} is active in eval mode: two passes differ",
            why=(
                "Dropout ignores the mode: F.dropout has training=True by default, dropout_p is "
                "always applied, and eval() does not reach layers in a plain list."
            ),
            fix=(
                "Pass training=self.training (dropout_p=self.p if self.training else 0.0), or "
                "register an nn.Dropout."
            ),
            place=place_of_site(dropping.site),
        )
    if draws:
        notes.append(
            f"eval mode draws random numbers: {listed(sorted({each.name for each in draws}))}"
        )
    else:
        notes.append("eval mode depends on the random state")
    return None


def _drops(call: Call) -> bool:
    def given(position: int, name: str, default: Any) -> Any:
        return call.args[position] if len(call.args) > position else call.kwargs.get(name, default)

    if call.name == "scaled_dot_product_attention":
        return float(given(4, "dropout_p", 0.0)) > 0
    if "dropout" not in call.name:
        return False
    return bool(given(2, "training", True)) and float(given(1, "p", 0.5)) > 0


def _train_and_eval(
    subject: Subject, call: ModelCall, evaluated: list[torch.Tensor], notes: list[str]
) -> Verdict:
    trained = forward(subject.fresh().model, call.args, call.kwargs)
    change = largest_difference(evaluated, trained)
    modules = [each for each in subject.given.model.modules() if _depends_on_mode(each)]
    layers = [type(each).__name__ for each in modules if _has_mode(each)] or [
        type(each).__name__ for each in modules
    ]
    if change <= TOLERANCE:
        return passed("same outputs in train and eval mode, and in two eval passes", notes)
    if layers:
        return passed(
            "eval mode is deterministic; train mode differs, because of "
            f"{listed(sorted(set(layers)))}",
            notes,
        )
    size = "shape" if change == float("inf") else f"{change:.1e} of their size"
    return warning(
        f"train and eval mode differ by {size}, but no layer depends on the mode",
        why="The model has no dropout and no batch normalisation, and no code reads self.training.",
        fix=(
            "Find what `train()` or `eval()` changes: an overridden method, or a layer from "
            "another library."
        ),
        place=place_of_class(type(subject.given.model)),
        notes=notes,
    )


def _has_mode(module: nn.Module) -> bool:
    if isinstance(module, nn.RNNBase | nn.MultiheadAttention):
        return bool(module.dropout)
    return isinstance(module, BY_MODE)


def _depends_on_mode(module: nn.Module) -> bool:
    if _has_mode(module) or module._forward_pre_hooks or module._forward_hooks:
        return True
    if "train" in vars(module) or any("train" in vars(kind) for kind in _own_classes(module)):
        return True
    return any(_mentions_training(kind) for kind in _own_classes(module))


def _own_classes(module: nn.Module) -> list[type]:
    """Return a module's classes without PyTorch's plain layers, whose modes are known."""
    plain = ("torch.nn.modules", "torch.nn.parallel", "builtins")
    return [kind for kind in type(module).__mro__ if not kind.__module__.startswith(plain)]


def _mentions_training(kind: type) -> bool:
    """Whether a class reads the mode; also True if its source is unavailable."""
    try:
        return "training" in inspect.getsource(kind)
    except (OSError, TypeError):
        return True
