"""The optimizer was given nothing to train.

What happened
    torch refused to build an optimizer over no parameters, or over something else: a module, iterators in a list, names.
Why it matters
    The message says that the list is empty, not why: the layers are in a plain list that `parameters()` does not see, the generator was used
    up before, or the class has no `__init__` that torch calls.
How it is detected
    The optimizer's own arguments when it raised: what it was given, whether that was at its end before, and what the models that are
    alive hold in plain containers. Who went through an iterator before is read from the source.
How to fix it
    nn.ModuleList instead of a list; list(model.parameters()) where it is used more than once.
When it stays silent
    Any other error.
Cost
    None until a call raises.
"""

from __future__ import annotations

import ast

from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding, Hop
from whence.lineage.used_up import used_up
from whence.rules.optimizer.not_parameters import no_tensors
from whence.rules.optimizer.ownership import hiding
from whence.rules.refusals import refusing
from whence.rules.rule import Rank, rule
from whence.rules.telling import tell
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.failed import FailedCall


@rule("optimizer/no-parameters", Rank.CAUSE)
def no_parameters(failed: FailedCall) -> Finding | None:
    if not _was_given_nothing(failed):
        return no_tensors(failed)
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    hidden = hiding(failed, lambda weight: isinstance(weight, nn.Parameter))
    chain: tuple[Hop, ...] = ()
    patch = None
    if failed.builds.given_used_up:
        spot, chain, patch = _used_up(failed) or (spot, chain, patch)
        why = "An iterator such as model.parameters() gives its elements once. This one had given all of them before the optimizer got it."
        fix = "Keep a list, list(model.parameters()), where it is gone through more than once, or ask for the parameters anew each time."
    elif hidden is not None:
        spot, where = hidden
        why = f"parameters() is empty: the layers are in {where}, a plain container that a module does not look into."
        fix = "Use nn.ModuleList, nn.ModuleDict or nn.ParameterList."
    else:
        why = "What it was given has no parameters in it."
        fix = "Give it the parameters of the model that is trained; look at whether the model's __init__ has run and assigned its layers, and at what a filter lets through."
    return tell(
        failed,
        "optimizer/no-parameters",
        verdict="the optimizer was given nothing to train",
        spot=spot,
        why=why,
        fix=fix,
        chain=chain,
        patch=patch,
    )


def _used_up(failed: FailedCall) -> tuple[Spot | None, tuple[Hop, ...], str | None] | None:
    """The line that went through the iterator before; where that cannot be told, the line that made it and kept no list."""
    call = failed.site.node() if failed.site is not None else None
    given = _argument(call) if isinstance(call, ast.Call) else None
    if given is None:
        return None
    found = used_up(failed.call.stack, given)
    made = Spot.of_node(*found.made) if found.made is not None else None
    hops = (made.hop("made here, to be gone through once"),) if made is not None and found.line is not None else ()
    spot = found.line or made
    return (spot, hops, _as_list(*found.made) if found.made is not None else None) if spot is not None else None


def _argument(call: ast.Call) -> ast.expr | None:
    named = next((each.value for each in call.keywords if each.arg == "params"), None)
    return named or next(iter(call.args), None)


def _as_list(filename: str, node: ast.expr) -> str | None:
    text = text_of(filename, node)
    is_bare = isinstance(node, ast.GeneratorExp) and text.startswith("(")
    return diff_of(replace_node(filename, node, f"[{text[1:-1]}]" if is_bare else f"list({text})"))


def _was_given_nothing(failed: FailedCall) -> bool:
    """Whether an optimizer refused to be built because it found no parameter group."""
    names = refusing(failed, Optimizer, "__init__")
    groups = names.get("param_groups") if names is not None else None
    return isinstance(groups, list) and not groups and isinstance(failed.exception, ValueError)
