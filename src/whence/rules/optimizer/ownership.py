"""Who owns which weight: the model, the optimizer, nobody."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.weights import WeightEntry
from whence.lineage.placing import put_in_place
from whence.lineage.trail import where_built
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import shape_text, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of, tree_of
from whence.tape.scene import Scene

ENOUGH = 3


@audit_rule("optimizer/missing-parameter", Rank.CALL)
def missing_parameter(audit: Audit) -> Finding | None:
    """A parameter gets gradients and no optimizer owns it.

    What happened
        Weights take part in the loss and get gradients in every step, and no optimizer has them: layers in a plain list or dict that
        `parameters()` does not see, a part that was forgotten when the optimizer was built.
    Why it matters
        They stay as they were initialised. The rest learns around random weights.
    How it is detected
        Weights of recorded passes with a gradient that is not zero, that are in no optimizer's groups and are bit for bit
        what they were at first.
    How to fix it
        nn.ModuleList or nn.ModuleDict instead of a list or dict; all parameters into the optimizer.
    When it stays silent
        Weights that an optimizer has or had at any time, frozen ones, those that the program changes by itself, those that were loaded,
        modules in eval mode, inputs that require grad.
    Cost
        A look at each weight of a few recorded steps.
    """
    if not audit.final and audit.step < ENOUGH:
        return None
    if {"optimizer/stale-parameter", "device/module-in-forward", "device/parameter-copy"} & audit.told:
        return None
    # The first pass has the whole beginning of the program in it, with models that were only tried.
    lost = [each for each in _unowned(audit) if each.passes >= 2]
    if not lost or not any(entry.steps for entry in audit.built):
        return None
    hidden = _hidden(audit, lost)
    if hidden is None and not audit.final:
        return None
    names = [_name(audit, each) for each in lost]
    some = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    stepping = next(entry for entry in reversed(audit.built) if entry.steps)
    built = Spot.of_site(stepping.stack[0]) if stepping.stack else None
    if hidden is not None:
        spot, where = hidden
        return tell_silent(
            audit,
            "optimizer/missing-parameter",
            spot=spot,
            symptom=built,
            step=audit.step,
            op=stepping.kind,
            phase="program",
            verdict=f"{len(names)} weights get gradients and are never updated: {where} hides them from parameters()",
            what=f"the optimizer does not have {some}",
            why="A module sees what is assigned to it as a module or a parameter; what lies in a plain list, tuple or dict is not seen, "
            "not moved by .to() and not saved.",
            fix="Use nn.ModuleList or nn.ModuleDict (nn.ParameterList for parameters).",
            patch=_registered(spot, lost),
        )
    return tell_silent(
        audit,
        "optimizer/missing-parameter",
        spot=built,
        step=audit.step,
        op=stepping.kind,
        phase="optimizer",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{len(names)} weights get gradients and no optimizer has them: {some}",
        what=f"after {audit.step} steps they are bit for bit as they were initialised",
        why="They take part in the loss and have gradients in every step, but were not given to an optimizer.",
        fix="Give them to the optimizer; if they are to stay as they are, say so with requires_grad_(False).",
    )


def _registered(spot: Spot, lost: list[WeightEntry]) -> str | None:
    """The list or dict put into torch's own container, by the name that the file has for torch.nn."""
    node, tree = spot.node(), tree_of(spot.filename)
    plain = next((each.weight for each in lost if each.call is not None and each.call.module is None), None)
    if tree is None or plain is not None or not isinstance(node, ast.List | ast.ListComp | ast.Dict | ast.DictComp):
        return None
    known = [ast.unparse(each) for each in tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    name = "nn" if any(each in known for each in ("from torch import nn", "import torch.nn as nn")) else "torch.nn"
    kind = "ModuleList" if isinstance(node, ast.List | ast.ListComp) else "ModuleDict"
    return diff_of(replace_node(spot.filename, node, f"{name}.{kind}({text_of(spot.filename, node)})"))


def _unowned(audit: Audit) -> list[WeightEntry]:
    return [
        entry
        for entry in audit.weights.entries()
        if (weight := entry.weight) is not None
        and entry.gradients == entry.passes > 0
        and entry.training
        and weight.requires_grad
        and not audit.was_loaded(entry)
        and isinstance(weight, nn.Parameter)
        and not audit.is_owned(weight)
        and not entry.has_changed()
    ]


def _name(audit: Audit, entry: WeightEntry) -> str:
    weight = entry.weight
    assert weight is not None
    return entry.name or audit.modules.name_of(weight) or f"a weight {shape_text(weight.shape)}"


def _hidden(audit: Audit, lost: list[WeightEntry]) -> tuple[Spot, str] | None:
    wanted = {id(entry.weight) for entry in lost}
    return hiding(audit, lambda weight: id(weight) in wanted)


def hiding(scene: Scene, is_wanted: Callable[[torch.Tensor], bool]) -> tuple[Spot, str] | None:
    """A plain container on a module that holds weights which the module does not register: the line that makes it, its name."""
    for module in scene.modules.known():
        for name, thing in vars(module).items():
            plain = isinstance(thing, list | tuple | dict) and name not in ("_modules", "_parameters", "_buffers")
            if plain and any(is_wanted(weight) for weight in weights_in(thing)):
                spot = where_built(module, name, scene)
                if spot is not None:
                    return spot, f"the {type(thing).__name__} {scene.modules.path_of(module)}.{name}"
    return None


def weights_in(thing: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(thing, nn.Module):
        yield from thing.parameters()
    elif isinstance(thing, torch.Tensor):
        yield thing
    elif isinstance(thing, list | tuple | set) and depth < 3:
        for each in thing:
            yield from weights_in(each, depth + 1)
    elif isinstance(thing, dict) and depth < 3:
        for each in thing.values():
            yield from weights_in(each, depth + 1)


@audit_rule("optimizer/stale-parameter", Rank.CAUSE)
def stale_parameter(audit: Audit) -> Finding | None:
    """The optimizer owns tensors the model no longer uses.

    What happened
        A layer or a parameter was replaced after the optimizer had been built. The optimizer still has the old tensors; the new ones
        get gradients and no update.
    Why it matters
        The new layer stays as it was initialised, while everything seems to run.
    How it is detected
        Weights with gradients that no optimizer has, beside weights of the optimizer that no module has any more.
    How to fix it
        Replace first, then build the optimizer; or add_param_group.
    When it stays silent
        `.to()` and load_state_dict, which keep the tensors; old layers that are still used elsewhere.
    Cost
        A look at each weight of a few recorded steps.
    """
    if audit.step < ENOUGH and not audit.final:
        return None
    # The first pass has the whole beginning of the program in it, with models that were only tried.
    lost = [each for each in _unowned(audit) if each.passes >= 2]
    if not lost:
        return None
    registered = {id(weight) for module in audit.modules.known() for weight in module._parameters.values()}
    for entry in audit.built:
        optimizer = entry.optimizer
        if optimizer is None:
            continue
        weights = [each for group in optimizer.param_groups for each in group["params"]]
        left = [each for each in weights if isinstance(each, nn.Parameter) and id(each) not in registered]
        if not left or not entry.steps:
            continue
        shapes = {tuple(each.shape) for each in left}
        alive = [each for each in lost if id(each.weight) in registered] or lost
        matching = [each for each in alive if each.weight is not None and tuple(each.weight.shape) in shapes] or alive
        weight = matching[0].weight
        assert weight is not None
        spot = _where_replaced(audit, weight)
        names = [_name(audit, each) for each in alive]
        return tell_silent(
            audit,
            "optimizer/stale-parameter",
            spot=spot or (Spot.of_site(entry.stack[0]) if entry.stack else None),
            symptom=Spot.of_site(entry.stack[0]) if entry.stack else None,
            step=audit.step,
            op=entry.kind,
            phase="program",
            verdict=f"{', '.join(names[:2])} replaced what the optimizer had been given, and is never updated",
            what=f"the optimizer still has {len(left)} tensors that the model no longer uses",
            why="An optimizer keeps the tensors it was given. What is assigned to the model later is unknown to it.",
            fix="Build the optimizer after the replacement, or give it the new parameters with add_param_group.",
        )
    return None


def _where_replaced(audit: Audit, weight: torch.Tensor) -> Spot | None:
    """Where the new layer took its place, or the statement that assigned the parameter."""
    owner = audit.modules.owner_of(weight)
    registered = audit.modules.registered_at(weight)
    # The layer may have been replaced in its turn; its own constructor has registered the weight.
    stack = audit.modules.built_at(owner[0]) if owner is not None else registered
    if registered and registered[:1] != stack[:1]:
        # Not by the constructor of the layer that has it.
        return Spot.of_site(registered[0])
    return put_in_place(stack) or Spot.of_site(stack[0]) if stack else None
