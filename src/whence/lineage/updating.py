"""An update that destroyed the weights, made once more with an eye on every call. Only ever in a child process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.optim import Optimizer

from whence.lineage.births import first_bad
from whence.lineage.elsewhere import NotPossible, run_elsewhere
from whence.lineage.gradients import InsideWatch
from whence.source.spots import Spot
from whence.tape.replay import trouble_in

STAND_INS = (0.5, 0.0)
"""What is put in place of numbers that the update has made NaN. A zero might itself be what is divided by: it comes last."""


@dataclass(frozen=True, slots=True)
class Remade:
    """The call of an optimizer's step that gave NaN or Inf."""

    op: str
    spot: Spot
    trouble: str
    of_zero: bool
    """Whether one of its operands is zero there. Other numbers may come of what stands in for the weights, and are not told."""


def made_again(optimizer: Optimizer) -> Remade | None:
    """Where the step that was just made gave NaN or Inf. Its gradients are still there; what it destroyed is stood in for."""
    try:
        return run_elsewhere(lambda: next(_tries(optimizer), None))
    except NotPossible:
        return None


def _tries(optimizer: Optimizer) -> Iterator[Remade]:
    for stand_in in STAND_INS:
        _mend(optimizer, stand_in)
        watch = InsideWatch()
        with watch:
            optimizer.step()
        if watch.found is None or watch.result is None:
            continue
        trouble = trouble_in(watch.result)
        index = first_bad(watch.result, trouble)
        alike = (each.broadcast_to(watch.result.shape)[index] for each in watch.given if _fits(each, watch.result))
        op, site = watch.found
        yield Remade(op, Spot.of_site(site), trouble, of_zero=any(float(each) == 0 for each in alike))


def _fits(operand: torch.Tensor, result: torch.Tensor) -> bool:
    sizes = zip(reversed(operand.shape), reversed(result.shape), strict=False)
    return operand.dim() <= result.dim() and all(one in (1, other) for one, other in sizes)


def _mend(optimizer: Optimizer, stand_in: float) -> None:
    """Moments begin at zero, weights do not."""
    with torch.no_grad():
        for group in optimizer.param_groups:
            for weight in group["params"]:
                weight.copy_(torch.where(torch.isfinite(weight), weight, stand_in))
        for state in optimizer.state.values():
            for each in state.values() if isinstance(state, dict) else ():
                if isinstance(each, torch.Tensor) and each.is_floating_point():
                    each.nan_to_num_(0.0, 0.0, 0.0)
