"""Find where the samples of a batch become identical on their way to a prediction."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from whence.ledgers.study import Study
from whence.tape.replay import Run
from whence.tape.tape import Call, Value

MULTIPLIES = frozenset({"mul", "__mul__", "__rmul__", "multiply", "mul_", "__imul__"})
DROPOUTS = frozenset(
    {"dropout", "dropout_", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout",
     "feature_dropout", "feature_alpha_dropout"}
)  # fmt: skip
ROUNDING = 1e-6
"""Relative to the largest input of a call: the rounding error of a sum that cancels out."""


@dataclass(frozen=True, slots=True)
class Alike:
    """A call whose input samples differ and whose output samples are identical."""

    call: Call
    mask: Value | None
    """The factor of a product, if it is 0 wherever the other factor is not."""


def without_dropout(call: Call, run: Run) -> None:
    """Replace the output of dropout by its input, since dropout makes identical samples differ."""
    given = run.contents.get(call.operands[0]) if call.name in DROPOUTS and call.operands else None
    if given is not None and call.outputs and call.outputs[0] in run.contents:
        run.contents[call.outputs[0]] = given


def made_alike(study: Study, prediction: Value) -> Alike | None:
    """The last such call before a prediction."""
    differs: dict[Value, bool] = {}
    masks: dict[Call, Value] = {}

    def amend(call: Call, run: Run) -> None:
        without_dropout(call, run)
        given = [run.contents[each] for each in call.operands if each in run.contents]
        largest = max((float(each.abs().max()) for each in given if _is_real(each)), default=0.0)
        for value in call.outputs:
            made = run.contents.get(value)
            if (
                made is not None
                and made.dim()
                and len(made) == prediction.shape[0]
                and _is_real(made)
            ):
                differs[value] = float((made - made[:1]).abs().max()) > ROUNDING * largest
        if call.name in MULTIPLIES and (mask := _closing(call, run)) is not None:
            masks[call] = mask

    if study.again(prediction, gradients=False, amend=amend) is None:
        return None
    for call in reversed(study.path(prediction)):
        is_one = any(differs.get(value) is False for value in call.outputs)
        was_one = any(
            differs.get(value) is False and value.requires_grad for value in call.operands
        )
        if is_one and not was_one and any(differs.get(value) for value in call.operands):
            return Alike(call, masks.get(call))
    return None


def _is_real(content: torch.Tensor) -> bool:
    return content.is_floating_point() and content.numel() > 0 and content.layout is torch.strided


def _closing(call: Call, run: Run) -> Value | None:
    """A factor of zeros and ones that zeroes the product, although both factors are nonzero."""
    contents = [(each, run.contents[each]) for each in call.operands if each in run.contents]
    made = run.contents.get(call.outputs[0]) if call.outputs else None
    if (
        len(contents) != 2
        or made is None
        or bool(made.any())
        or not all(bool(each.any()) for _, each in contents)
    ):
        return None
    return next(
        (value for value, each in contents if bool(((each == 0) | (each == 1)).all())), None
    )
