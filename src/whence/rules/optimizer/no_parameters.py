"""The optimizer received nothing to train.

What happened
    PyTorch raised when an optimizer was built over no parameters, or over something else: a module,
    iterators in a list, names.
Why it matters
    The error says that the list is empty, not why: the layers are in a plain list that
    `parameters()` does not search, the generator was already consumed, or `__init__` does not call
    `super().__init__()`.
How it is detected
    The optimizer's arguments when it raised: what it received, whether that was an exhausted
    iterator, and which plain containers of live models hold layers. The line that consumed an
    iterator is found in the source.
How to fix it
    Use nn.ModuleList instead of a list; list(model.parameters()) if it is used more than once.
When it stays silent
    For any other error.
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
from whence.rules.telling import failure_finding, silent_finding
from whence.source.definitions import find_definition
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, statement_of
from whence.tape.failed import FailedCall


@rule("optimizer/no-parameters", Rank.CAUSE)
def no_parameters(failed: FailedCall) -> Finding | None:
    if not _received_nothing(failed):
        return no_tensors(failed)
    spot = Spot.of_site(failed.site) if failed.site is not None else None
    hidden = hiding(failed, lambda weight: isinstance(weight, nn.Parameter))
    chain: tuple[Hop, ...] = ()
    patch = None
    if failed.builds.given_used_up:
        spot, chain, patch = _used_up(failed) or (spot, chain, patch)
        why = (
            "An iterator such as model.parameters() yields its elements once. This one was "
            "consumed before the optimizer received it."
        )
        fix = (
            "Keep a list, list(model.parameters()), if it is iterated more than once, or call "
            "parameters() each time."
        )
    elif hidden is not None:
        spot, where = hidden
        why = (
            f"parameters() is empty: the layers are in {where}, a plain container that a module "
            "does not search."
        )
        fix = "Use nn.ModuleList, nn.ModuleDict or nn.ParameterList."
    elif (plain := _plain_tensor(failed)) is not None:
        spot, where = plain
        why = (
            f"parameters() is empty: {where} is a plain tensor. Only nn.Parameter objects count "
            "as parameters of a module."
        )
        fix = f"Wrap {where} in nn.Parameter(...)."
    else:
        why = "The object passed to the optimizer contains no parameters."
        fix = (
            "Pass the parameters of the model that is trained. Check that the model's __init__ "
            "has run and assigned its layers, and what a filter selects."
        )
    return failure_finding(
        failed,
        "optimizer/no-parameters",
        verdict="the optimizer received no parameters",
        spot=spot,
        why=why,
        fix=fix,
        chain=chain,
        patch=patch,
    )


@audit_rule("optimizer/no-parameters", Rank.CAUSE)
def empty_group(audit: Audit) -> Finding | None:
    """The form that does not raise: other groups have parameters."""
    for entry in audit.built:
        optimizer = entry.optimizer
        if optimizer is None or not entry.stack or not entry.steps:
            continue
        for written, group in zip(_groups(entry.stack[0]), optimizer.param_groups, strict=False):
            given = _entry_of(written, "params") if not group["params"] else None
            found = iterated_in(entry.stack, given) if given is not None else None
            if found is None or found.made is None or found.line is None:
                continue
            return silent_finding(
                audit,
                "optimizer/no-parameters",
                spot=found.made,
                symptom=Spot.of_site(entry.stack[0]),
                step=audit.step,
                op=entry.kind,
                phase="program",
                verdict=f"a parameter group of {entry.kind} is empty: its iterator was already "
                "exhausted",
                what=f"{audit.step} steps so far, and nothing in the group to update",
                why="An iterator yields its elements once. This one was consumed before the "
                "optimizer received it.",
                fix="Keep the parameters in a list if they are iterated more than once, or call "
                "parameters() each time.",
                chain=found.consumed_hop,
                patch=found.patch,
            )
    return None


def _plain_tensor(failed: FailedCall) -> tuple[Spot, str] | None:
    """A floating-point tensor that a module without parameters keeps as a plain attribute."""
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
    """The source of the groups that an optimizer receives: in its call, or in a variable."""
    node, scope = site.node(), function_node(site)
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if isinstance(given, ast.Name) and scope is not None:
        known = find_definition(given.id, scope, statement_of(given))
        given = known.value if known is not None else None
    return given.elts if isinstance(given, ast.List | ast.Tuple) else []


def _entry_of(node: ast.expr, key: str) -> ast.expr | None:
    """The source expression of a dict's value for a key."""
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
    """The line that consumed the iterator, if it is in the function that created it.

    Otherwise the line that created it: a function that receives an iterator may consume it.
    """
    found = iterated(failed.call.stack, "params")
    if found is None:
        return None
    if found.line is not None and (found.is_local or found.made is None):
        return found.line, found.created_hop, found.patch
    return (found.made, found.consumed_hop, found.patch) if found.made is not None else None


def _received_nothing(failed: FailedCall) -> bool:
    """Whether an optimizer raised because it found no parameter group."""
    names = refusing(failed, Optimizer, "__init__")
    groups = names.get("param_groups") if names is not None else None
    return isinstance(groups, list) and not groups and isinstance(failed.exception, ValueError)
