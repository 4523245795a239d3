"""What depends on what: probes on the graph of a replayed pass. Nothing of the program takes part."""

from __future__ import annotations

import torch

from whence.tape.replay import Run
from whence.tape.tape import Value

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


def depends_on_later(
    run: Run, result: Value, source: Value, *, batch: int, step: int, axis: int, source_axis: int
) -> bool:
    """Whether a result at one time depends on the source at later times, for one sample."""
    made = run.contents.get(result)
    if made is None:
        return False
    index = [slice(None)] * made.dim()
    if made.dim() > 1:
        index[0] = slice(batch, batch + 1)
    index[axis] = slice(step, step + 1)
    size = reach(run, result, tuple(index), source)
    if size is None or size.dim() <= source_axis:
        return False
    later = size.narrow(source_axis, step + 1, size.shape[source_axis] - step - 1)
    return bool(later.numel()) and float(later.max()) > TINY * max(1.0, float(size.max()))
