"""What depends on what: probes on the graph of a replayed pass. Nothing of the program takes part."""

from __future__ import annotations

import torch

from whence.tape.operations import NORMS
from whence.tape.replay import Run
from whence.tape.tape import Call, Value

TINY = 1e-12


def reach(run: Run, result: Value, index: tuple[slice, ...], source: Value) -> torch.Tensor | None:
    """How much each element of a source moves one part of a result: the size of the gradient; None where there is no way."""
    made, given = run.contents.get(result), run.contents.get(source)
    if made is None or given is None or not made.requires_grad or not given.requires_grad:
        return None
    try:
        part = made[index].double().sum()
        (gradient,) = torch.autograd.grad(part, [given], retain_graph=True, allow_unused=True)
    except (RuntimeError, IndexError):
        return None
    return gradient.detach().abs() if gradient is not None else None


def slope(run: Run, result: Value, source: Value) -> torch.Tensor | None:
    """How a result, all of it together, goes with each element of a source; None where there is no way."""
    made, given = run.contents.get(result), run.contents.get(source)
    if (
        made is None
        or given is None
        or made is given
        or not made.requires_grad
        or not given.requires_grad
    ):
        return None
    try:
        (gradient,) = torch.autograd.grad(made.sum(), [given], retain_graph=True, allow_unused=True)
    except RuntimeError:
        return None
    return gradient.detach() if gradient is not None else None


def depends_on_later(
    run: Run, result: Value, source: Value, *, index: dict[int, int], step: int, time: int
) -> bool:
    """Whether one part of a result, given as places on its axes, depends on what comes after a step in the source."""
    made = run.contents.get(result)
    if made is None:
        return False
    size = reach(run, result, part_at(index, made.dim()), source)
    if size is None or size.dim() <= time:
        return False
    later = size.narrow(time, step + 1, size.shape[time] - step - 1)
    return bool(later.numel()) and float(later.max()) > TINY * max(1.0, float(size.max()))


def part_at(index: dict[int, int], axes: int) -> tuple[slice, ...]:
    """One place on some axes, and all of the others."""
    return tuple(
        slice(index[axis], index[axis] + 1) if axis in index else slice(None)
        for axis in range(axes)
    )


def by_element(call: Call, run: Run) -> None:
    """Let a gradient pass a normalisation, and not its statistics: those of a batch are made from all places, and give nothing away."""
    if call.name in NORMS:
        one_to_one(call, run)


def one_to_one(call: Call, run: Run) -> None:
    """Let a gradient pass a call as if each element were made from the one at its own place."""
    given = run.contents.get(call.operands[0]) if call.operands else None
    made = run.contents.get(call.results[0]) if given is not None and call.results else None
    if given is not None and made is not None and given.shape == made.shape:
        run.contents[call.results[0]] = made.detach() + (given - given.detach()).to(made.dtype)
