"""Who owns which weight: the model, the optimizer, nobody."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from itertools import combinations, takewhile
from typing import Any

import torch
from torch import nn

from whence.finding import Confidence, Finding, Hop, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import OptimizerEntry
from whence.ledgers.weights import WeightEntry
from whence.lineage.placing import put_in_place
from whence.lineage.trail import where_built
from whence.rules.optimizer.edits import built_after, given_as_well
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import shape_text, spot_at, tell_silent
from whence.source.definitions import name_in, own_nodes
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import function_node, last_name, text_of, tree_of
from whence.tape.scene import Scene
from whence.tape.scopes import weights_within
from whence.tape.tape import storage_of

ENOUGH = 3
EXPLAINED = frozenset(
    {
        "optimizer/stale-parameter",
        "optimizer/no-parameters",
        "device/module-in-forward",
        "device/parameter-copy",
        "device/unregistered-tensor",
    }
)


@audit_rule("optimizer/missing-parameter", Rank.CALL)
def missing_parameter(audit: Audit) -> Finding | None:
    """A parameter gets gradients and no optimizer owns it.

    What happened
        Weights take part in the loss and get gradients, and no optimizer has them: layers in a plain list or dict that
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
    if EXPLAINED & audit.told:
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
    stepping = _nearest(audit, names[0])
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
    if (added := _added_later(audit, stepping, lost)) is not None:
        return _tell_added(audit, stepping, added, names, some)
    left_out, chain = _left_out_at(audit, stepping, names[0])
    return tell_silent(
        audit,
        "optimizer/missing-parameter",
        spot=left_out,
        symptom=built,
        chain=chain,
        step=audit.step,
        op=stepping.kind,
        phase="optimizer",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{len(names)} weights get gradients and no optimizer has them: {some}"
        if len(names) > 1
        else f"{some} gets gradients and no optimizer has it",
        what=f"after {audit.step} steps {'they are' if len(names) > 1 else 'it is'} bit for bit as initialised",
        why="They take part in the loss and have gradients, but were not given to an optimizer.",
        fix="Give them to the optimizer; if they are to stay as they are, say so with requires_grad_(False).",
        patch=given_as_well(audit, stepping, [each.weight for each in lost])
        if left_out == built
        else None,
    )


def _added_later(audit: Audit, stepping: OptimizerEntry, lost: list[WeightEntry]) -> Site | None:
    """Where a part was built that the model has had only since after its optimizer was built."""
    if not stepping.stack:
        return None
    weights = [each.weight for each in lost if each.weight is not None]
    owners = [owner[0] for each in weights if (owner := audit.modules.owner_of(each)) is not None]
    parts = [audit.modules.built_later(each, stepping.modules) for each in owners]
    if len(parts) < len(lost) or not parts or None in parts:
        return None
    stack = audit.modules.built_at(parts[0]) if parts[0] is not None else ()
    return stack[0] if stack else None


def _tell_added(
    audit: Audit, stepping: OptimizerEntry, added: Site, names: list[str], some: str
) -> Finding | None:
    are = "are" if len(names) > 1 else "is"
    return tell_silent(
        audit,
        "optimizer/missing-parameter",
        spot=Spot.of_site(added),
        symptom=spot_at(stepping.stack[0]),
        step=audit.step,
        op=stepping.kind,
        phase="program",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{some} came after {stepping.kind} was built, and {are} never updated",
        what=f"after {audit.step} steps {'they are' if len(names) > 1 else 'it is'} bit for bit as initialised",
        why="An optimizer has what it was given. A layer that is added to the model later gets gradients, and nobody uses them.",
        fix="Give it to the optimizer where it is added: optimizer.add_param_group({'params': layer.parameters()}); or build the optimizer "
        "when the model is whole.",
    )


def _nearest(audit: Audit, name: str) -> OptimizerEntry:
    """The optimizer that has steps and, of all, the weights that lie nearest to a weight in the model: the last one, if that does not tell."""
    path = name.split(".")

    def nearness(entry: OptimizerEntry) -> int:
        own = (
            each.name.split(".")
            for each in audit.weights.entries()
            if id(each.weight) in entry.weights
        )
        return max((_in_common(path, each) for each in own), default=0)

    return max((each for each in reversed(audit.built) if each.steps), key=nearness)


def _in_common(one: list[str], other: list[str]) -> int:
    """How many parts two paths have in common, from their beginning."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _left_out_at(
    audit: Audit, stepping: OptimizerEntry, name: str
) -> tuple[Spot | None, tuple[Hop, ...]]:
    """The line that should have given a weight to an optimizer, and what else there is to see."""
    twins = _twins(audit)
    if twins is not None:
        return twins[0], (twins[1].hop("has the same weights as that"),)
    given = [
        each
        for each in audit.weights.entries()
        if id(each.weight) in stepping.weights and each.name
    ]
    has_others = _root(name) in {_root(each.name) for each in given}
    picks = _picked_by_name(stepping.stack[0]) if stepping.stack and has_others else []
    if len(picks) == 1:
        return picks[0], ()
    built = Spot.of_site(stepping.stack[0]) if stepping.stack else None
    return built, tuple(each.hop(f"takes weights by name, and not {name}") for each in picks)


def _root(name: str) -> str:
    """The model that a weight is part of."""
    return name.split(".")[0]


def _picked_by_name(site: Site) -> list[Spot]:
    """Lines that choose among `named_parameters()`, in the function that builds the optimizer."""
    scope = function_node(site) or tree_of(site.filename)
    found: list[Spot] = []
    for node in own_nodes(scope) if scope is not None else ():
        match node:
            case (
                ast.ListComp(generators=[ast.comprehension(iter=source, ifs=[_, *_])])
                | ast.GeneratorExp(generators=[ast.comprehension(iter=source, ifs=[_, *_])])
            ):
                chosen = node
            case ast.For(iter=source, body=[ast.If() as chosen]):
                pass
            case _:
                continue
        if isinstance(source, ast.Call) and last_name(source.func) == "named_parameters":
            found.append(Spot.of_node(site.filename, chosen))
    return found


def _twins(audit: Audit) -> tuple[Spot, Spot] | None:
    """Two optimizers that were given the same weights: one of them was meant for others."""
    stepping = [each for each in audit.built if each.steps and each.stack]
    for one, other in combinations(stepping, 2):
        if one.weights == other.weights and one.stack[0] != other.stack[0]:
            return Spot.of_site(one.stack[0]), Spot.of_site(other.stack[0])
    return None


def _registered(spot: Spot, lost: list[WeightEntry]) -> str | None:
    """The list or dict put into torch's own container, by the name that the file has for torch.nn."""
    node = spot.node()
    plain = next(
        (each.weight for each in lost if each.call is not None and each.call.module is None), None
    )
    if plain is not None or not isinstance(node, ast.List | ast.ListComp | ast.Dict | ast.DictComp):
        return None
    kind = "ModuleList" if isinstance(node, ast.List | ast.ListComp) else "ModuleDict"
    name = name_in(spot.filename, "torch.nn", kind)
    return (
        diff_of(replace_node(spot.filename, node, f"{name}({text_of(spot.filename, node)})"))
        if name
        else None
    )


def _unowned(audit: Audit) -> list[WeightEntry]:
    return [
        entry
        for entry in audit.weights.entries()
        if (weight := entry.weight) is not None
        and 2 * entry.reached > entry.open
        and entry.training
        and weight.requires_grad
        and not audit.was_loaded(entry)
        and isinstance(weight, nn.Parameter)
        and not audit.is_owned(weight)
        and not entry.has_changed()
        and not _is_written_anew(audit, entry)
    ]


def _is_written_anew(audit: Audit, entry: WeightEntry) -> bool:
    """Whether the program writes into it after its first use: what is there may be what was there at first, by chance."""
    memory = storage_of(entry.weight) if entry.weight is not None else 0
    used = entry.call.number if entry.call is not None else 0
    return any(
        each.storage == memory
        and call.step > 0
        and call.number > used
        and call.phase in ("program", "forward")
        for call in audit.tape.calls
        for each in call.changed
    )


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
        # A recurrent layer has its own weights in a list as well.
        own = {id(each) for each in module._parameters.values()}
        for name, thing in vars(module).items():
            plain = isinstance(thing, list | tuple | dict) and name not in (
                "_modules",
                "_parameters",
                "_buffers",
            )
            if plain and any(
                is_wanted(weight) and id(weight) not in own for weight in weights_in(thing)
            ):
                spot = where_built(module, name, scene)
                if spot is not None:
                    return (
                        spot,
                        f"the {type(thing).__name__} {scene.modules.path_of(module)}.{name}",
                    )
    return None


def weights_in(thing: Any, depth: int = 0) -> Iterator[torch.Tensor]:
    if isinstance(thing, nn.Module):
        yield from weights_within(thing)
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
        get gradients and no update. Or it was given the parameters of another network than the one that is run.
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
    registered = {
        id(weight) for module in audit.modules.known() for weight in module._parameters.values()
    }
    for entry in audit.built:
        optimizer = entry.optimizer
        if optimizer is None:
            continue
        weights = [each for group in optimizer.param_groups for each in group["params"]]
        loose = [
            each
            for each in weights
            if isinstance(each, nn.Parameter) and id(each) not in registered
        ]
        left = [
            each for each in loose if not _is_used_since(audit, each, max(one.step for one in lost))
        ]
        if not left or not entry.steps:
            continue
        shapes = {tuple(each.shape) for each in left}
        alive = [each for each in lost if id(each.weight) in registered] or lost
        matching = [
            each for each in alive if each.weight is not None and tuple(each.weight.shape) in shapes
        ] or alive
        weight = matching[0].weight
        assert weight is not None
        names = [_name(audit, each) for each in alive]
        copied = audit.modules.copied_at(left[0])
        if copied and entry.stack and not audit.modules.copied_at(weight):
            return _tell_given_a_copy(audit, entry, names, copied)
        if _was_there_before(audit, entry, weight):
            return _of_another(audit, entry, names, len(left))
        spot = _where_replaced(audit, weight)
        return tell_silent(
            audit,
            "optimizer/stale-parameter",
            spot=spot or (Spot.of_site(entry.stack[0]) if entry.stack else None),
            symptom=Spot.of_site(entry.stack[0]) if entry.stack else None,
            step=audit.step,
            op=entry.kind,
            phase="program",
            verdict=f"{', '.join(names[:2])} replaced what the optimizer had been given, and {'is' if len(names) == 1 else 'are'} never updated",
            what=f"the optimizer still has {len(left)} {'tensor' if len(left) == 1 else 'tensors'} that the model no longer uses",
            why="An optimizer keeps the tensors it was given. What is assigned to the model later is unknown to it.",
            fix="Build the optimizer after the replacement, or give it the new parameters with add_param_group.",
            patch=built_after(entry, _replacing(audit, weight)),
        )
    return None


def _was_there_before(audit: Audit, entry: OptimizerEntry, weight: torch.Tensor) -> bool:
    """Whether the model had this weight already when the optimizer was built: then nothing has taken the place of anything."""
    owner = audit.modules.owner_of(weight)
    if owner is None or _replacing(audit, weight)[:1] != audit.modules.built_at(owner[0])[:1]:
        return False
    return audit.modules.is_older(owner[0], entry.modules)


def _of_another(
    audit: Audit, entry: OptimizerEntry, names: list[str], others: int
) -> Finding | None:
    """The optimizer was given the weights of another network from the start: a second one of its kind, a copy of it."""
    some = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
    return tell_silent(
        audit,
        "optimizer/stale-parameter",
        spot=Spot.of_site(entry.stack[0]) if entry.stack else None,
        step=audit.step,
        op=entry.kind,
        phase="program",
        verdict=f"{entry.kind} was given the weights of another network: those that are trained, {some}, are never updated",
        what=f"none of {others} {'tensor' if others == 1 else 'tensors'} that it was given takes part in the loss",
        why="A network that is built anew, or copied, has weights of its own. An optimizer moves those that it was given, and no others.",
        fix="Give it the parameters of the network that the loss is made with.",
    )


def _tell_given_a_copy(
    audit: Audit, entry: OptimizerEntry, names: list[str], copied: tuple[Site, ...]
) -> Finding | None:
    """What the optimizer has was never part of the model that is trained."""
    return tell_silent(
        audit,
        "optimizer/stale-parameter",
        spot=Spot.of_site(entry.stack[0]),
        symptom=Spot.of_site(copied[0]),
        step=audit.step,
        op=entry.kind,
        phase="program",
        verdict=f"the optimizer has the weights of a copy: {', '.join(names[:2])} {'gets gradients and is' if len(names) == 1 else 'get gradients and are'} never updated",
        what="the copy is made here",
        why="A copy has weights of its own. The loss is computed with the model that it was copied from.",
        fix="Give the optimizer the parameters of the model that is trained.",
    )


def _is_used_since(audit: Audit, weight: torch.Tensor, step: int) -> bool:
    """Whether a weight took part in a pass as late as this: no module need have it for that."""
    known = audit.weights.entry_of(weight)
    return known is not None and known.gradients > 0 and known.step >= step


def _where_replaced(audit: Audit, weight: torch.Tensor) -> Spot | None:
    """Where the new layer took its place, or the statement that assigned the parameter."""
    stack = _replacing(audit, weight)
    if stack and stack[:1] == audit.modules.registered_at(weight)[:1]:
        # Not by the constructor of the layer that has it.
        return Spot.of_site(stack[0])
    return put_in_place(stack) or Spot.of_site(stack[0]) if stack else None


def _replacing(audit: Audit, weight: torch.Tensor) -> tuple[Site, ...]:
    """The lines that built the new layer, or assigned the parameter."""
    owner = audit.modules.owner_of(weight)
    registered = audit.modules.registered_at(weight) or audit.modules.copied_at(weight)
    # The layer may have been replaced in its turn; its own constructor has registered the weight.
    stack = audit.modules.built_at(owner[0]) if owner is not None else registered
    return registered if registered and registered[:1] != stack[:1] else stack
