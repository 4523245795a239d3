"""Identical units receive identical updates.

What happened
    All units of a hidden layer, and the weights after them, were initialised identically: they
    compute the same and receive the same gradient.
Why it matters
    They stay identical forever. A layer of 64 units is effectively one unit.
How it is detected
    The rows of a weight are equal bit for bit, and so are the rows of its gradient; the columns,
    where the weight is the right operand of a product.
How to fix it
    Use a random initialisation.
When it stays silent
    For rows that start equal and receive different gradients: a last layer of zeros, LoRA, gates
    initialised to a constant.
Cost
    A comparison of the rows of each weight in a few recorded steps.
"""

from __future__ import annotations

import ast

import torch

from whence.finding import Finding
from whence.ledgers.study import Study
from whence.rules.operations import PRODUCTS
from whence.rules.rule import study_rule
from whence.rules.telling import shape_text, silent_finding
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.statements import reached
from whence.source.text import text_of
from whence.tape.slices import BACKWARDS
from whence.tape.tape import Call

SWITCHES = frozenset({"requires_grad_", "requires_grad.__set__"})


@study_rule("gradient/symmetric")
def symmetric(study: Study) -> Finding | None:
    if study.step < 1:
        return None
    for group in study.optimizer.param_groups:
        for weight in group["params"]:
            gradient = study.gradient_of(weight)
            if gradient is None or weight.dim() < 2 or gradient.is_sparse:
                continue
            axis = _unit_axis(study, weight)
            units, theirs = (each.detach().movedim(axis, 0) for each in (weight, gradient))
            if len(units) < 2 or units[0].numel() < 2:
                continue
            if not _alike(units) or not _alike(theirs) or not bool(gradient.any()):
                continue
            made = initialised(study, weight)
            owner = study.modules.owner_of(weight)
            stack = study.modules.built_at(owner[0]) if owner is not None else ()
            built = Spot.of_site(stack[0]) if stack else None
            name = study.modules.name_of(weight) or f"a weight {shape_text(weight.shape)}"
            return silent_finding(
                study,
                "gradient/symmetric",
                spot=Spot.of_site(made.site)
                if made is not None and made.site is not None
                else built,
                symptom=Spot.of_site(study.stack[0]) if study.stack else None,
                step=study.step,
                op=made.name if made is not None else None,
                verdict=f"all {len(units)} units of {name} are identical and get the same gradient",
                what=f"its {'columns' if axis else 'rows'} are still equal after the first steps, "
                "and so are those of its gradient",
                why=f"Units that start equal, with equal weights after them, stay equal: {name} "
                "has the capacity of one unit.",
                fix="Initialise randomly: nn.init.xavier_uniform_, kaiming_uniform_, or the "
                "layer's default.",
                patch=_at_random(made) if made is not None else None,
            )
    return None


def _at_random(made: Call) -> str | None:
    """`nn.init.constant_(w, c)` or `w.fill_(c)` becomes `nn.init.xavier_uniform_(w)`."""
    match made.site.node() if made.site is not None else None:
        case (
            ast.Call(
                func=ast.Attribute(attr="constant_" | "ones_" | "zeros_"), args=[weight, *_]
            ) as node
        ):
            pass
        case ast.Call(func=ast.Attribute(value=weight, attr="fill_" | "zero_")) as node:
            pass
        case _:
            return None
    filename = made.site.filename if made.site is not None else ""
    function, imports = reached(filename, "torch.nn.init", "xavier_uniform_")
    return diff_of(
        *imports, replace_node(filename, node, f"{function}({text_of(filename, weight)})")
    )


def _unit_axis(study: Study, weight: torch.Tensor) -> int:
    """Layers have one row of weights per unit; `x @ w` has one column."""
    for call in study.calls:
        if call.name in PRODUCTS and len(call.operands) > 1 and call.operands[-1].tensor is weight:
            return -1
    return 0


def _alike(rows: torch.Tensor) -> bool:
    return bool((rows == rows[:1]).all())


def initialised(study: Study, weight: torch.Tensor) -> Call | None:
    """The last call before any backward that wrote or created the weight."""
    found: Call | None = None
    for call in study.tape.calls:
        if call.name in BACKWARDS:
            break
        is_of_it = call.phase != "optimizer" and any(each.tensor is weight for each in call.outputs)
        if is_of_it and call.name not in SWITCHES and (call.changed or found is None):
            found = call
    return found
