"""The optimizer was given nothing to train.

What happened
    torch refused to build an optimizer over no parameters, or over something else: a module, iterators in a list, names.
Why it matters
    The message says that the list is empty, not why: the layers are in a plain list that `parameters()` does not see, the generator was used
    up before, or the class has no `__init__` that torch calls.
How it is detected
    The optimizer's own arguments when it raised: what it was given, and what the models that are alive hold in plain containers.
How to fix it
    nn.ModuleList instead of a list; list(model.parameters()) where it is used more than once.
When it stays silent
    Any other error.
Cost
    None until a call raises.
"""

from __future__ import annotations

import inspect
from types import GeneratorType
from typing import Any

from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding
from whence.rules.optimizer.not_parameters import no_tensors
from whence.rules.optimizer.ownership import hiding
from whence.rules.rule import Rank, rule
from whence.rules.telling import tell
from whence.source.sites import frames_in
from whence.source.spots import Spot
from whence.tape.failed import FailedCall


@rule("optimizer/no-parameters", Rank.CAUSE)
def no_parameters(failed: FailedCall) -> Finding | None:
    given = _given(failed)
    if given is None:
        return no_tensors(failed)
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    hidden = hiding(failed, lambda weight: isinstance(weight, nn.Parameter))
    if hidden is not None:
        spot, where = hidden
        why = f"parameters() is empty: the layers are in {where}, a plain container that a module does not look into."
        fix = "Use nn.ModuleList, nn.ModuleDict or nn.ParameterList."
    elif isinstance(given[0], GeneratorType) and inspect.getgeneratorstate(given[0]) == inspect.GEN_CLOSED:
        why = "A generator such as model.parameters() gives its elements once. This one was used up before, or the model has none."
        fix = "Call model.parameters() again here, or keep list(model.parameters())."
    else:
        why = "What it was given has no parameters in it."
        fix = "Give it the parameters of the model that is trained; look at whether the model's __init__ has run and assigned its layers."
    return tell(
        failed,
        "optimizer/no-parameters",
        verdict="the optimizer was given nothing to train",
        spot=spot,
        why=why,
        fix=fix,
    )


def _given(failed: FailedCall) -> tuple[Any] | None:
    """What an optimizer that refused to be built was given, where that is nothing."""
    for frame in frames_in(failed.exception.__traceback__):
        names = frame.f_locals
        if isinstance(names.get("self"), Optimizer) and "params" in names and frame.f_code.co_name == "__init__":
            groups = names.get("param_groups")
            if isinstance(groups, list) and not groups and isinstance(failed.exception, ValueError):
                return (names["params"],)
    return None
