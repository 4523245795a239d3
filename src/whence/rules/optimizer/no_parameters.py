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

import torch
from torch import nn
from torch.optim import Optimizer

from whence.finding import Finding, Hop
from whence.ledgers.audit import Audit
from whence.lineage.trail import where_built
from whence.rules.optimizer.iterators import iterated, iterated_in
from whence.rules.optimizer.not_parameters import no_tensors
from whence.rules.optimizer.ownership import hiding
from whence.rules.refusals import refusing
from whence.rules.rule import Rank, audit_rule, rule
from whence.rules.telling import tell, tell_silent
from whence.source.definitions import find_definition
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, statement_of
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
    elif (plain := _plain_tensor(failed)) is not None:
        spot, where = plain
        why = f"parameters() is empty: {where} is a plain tensor, and a module has as parameters only what is an nn.Parameter."
        fix = "Wrap what is to be trained: nn.Parameter(...)."
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


@audit_rule("optimizer/no-parameters", Rank.CAUSE)
def empty_group(audit: Audit) -> Finding | None:
    """The silent form: other groups have parameters, so that nothing is refused."""
    for entry in audit.built:
        optimizer = entry.optimizer
        if optimizer is None or not entry.stack or not entry.steps:
            continue
        for written, group in zip(_groups(entry.stack[0]), optimizer.param_groups, strict=False):
            given = _entry_of(written, "params") if not group["params"] else None
            found = iterated_in(entry.stack, given) if given is not None else None
            if found is None or found.made is None or found.line is None:
                continue
            return tell_silent(
                audit,
                "optimizer/no-parameters",
                spot=found.made,
                symptom=Spot.of_site(entry.stack[0]),
                step=audit.step,
                op=entry.kind,
                phase="program",
                verdict=f"one group of {entry.kind} has nothing to train: its parameters were in an iterator that was at its end",
                what=f"{audit.step} steps so far, and nothing in the group to update",
                why="An iterator gives its elements once. This one had given all of them before the optimizer got it.",
                fix="Keep a list where parameters are gone through more than once, or ask for them anew each time.",
                chain=found.was_used_up,
                patch=found.patch,
            )
    return None


def _plain_tensor(failed: FailedCall) -> tuple[Spot, str] | None:
    """A tensor of real numbers that a module of the program's keeps as a plain attribute, where none has parameters."""
    for module in failed.modules.known():
        for name, thing in list(vars(module).items()):
            spot = (
                where_built(module, name, failed)
                if isinstance(thing, torch.Tensor) and thing.is_floating_point()
                else None
            )
            if spot is not None:
                return spot, f"{type(module).__name__}.{name}"
    return None


def _groups(site: Site) -> list[ast.expr]:
    """The groups that an optimizer is given, as they are written: in its call, or where the variable gets its value."""
    node, scope = site.node(), function_node(site)
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(given, ast.Name) and scope is not None:
        known = find_definition(given.id, scope, statement_of(given))
        given = known.value if known is not None else None
    return given.elts if isinstance(given, ast.List | ast.Tuple) else []


def _entry_of(node: ast.expr, key: str) -> ast.expr | None:
    """What a dict has under a name, as it is written."""
    match node:
        case ast.Dict(keys=keys, values=values):
            return next(
                (
                    v
                    for k, v in zip(keys, values, strict=True)
                    if isinstance(k, ast.Constant) and k.value == key
                ),
                None,
            )
        case ast.Call(func=ast.Name(id="dict"), keywords=given):
            return next((each.value for each in given if each.arg == key), None)
    return None


def _used_up(failed: FailedCall) -> tuple[Spot, tuple[Hop, ...], str | None] | None:
    """The line that went through the iterator before. One in a function that was given it does what it is there for: then, and where
    it cannot be told, the line that made it and kept no list."""
    found = iterated(failed.call.stack, "params")
    if found is None:
        return None
    if found.line is not None and (found.is_local or found.made is None):
        return found.line, found.was_made, found.patch
    return (found.made, found.was_used_up, found.patch) if found.made is not None else None


def _was_given_nothing(failed: FailedCall) -> bool:
    """Whether an optimizer refused to be built because it found no parameter group."""
    names = refusing(failed, Optimizer, "__init__")
    groups = names.get("param_groups") if names is not None else None
    return isinstance(groups, list) and not groups and isinstance(failed.exception, ValueError)
