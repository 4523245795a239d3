"""Which optimizer owns which weight, if any."""

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
from whence.rules.optimizer.edits import built_after, missing_weights_added
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import shape_text, silent_finding, spot_at
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
        Weights take part in the loss and receive gradients, but no optimizer has them: layers in a
        plain list or dict that `parameters()` does not search, or a part that was forgotten when
        the optimizer was built.
    Why it matters
        They keep their initial values. The rest learns around random weights.
    How it is detected
        Weights of recorded passes have a nonzero gradient, are in no optimizer's groups and are bit
        for bit unchanged since the start.
    How to fix it
        Use nn.ModuleList or nn.ModuleDict instead of a list or dict; pass all parameters to the
        optimizer.
    When it stays silent
        For weights that an optimizer has or had at any time, frozen weights, weights that the
        program changes itself or has loaded, modules in eval mode, and inputs that require grad.
    Cost
        A check of each weight in a few recorded steps.
    """
    if not audit.final and audit.step < ENOUGH:
        return None
    if EXPLAINED & audit.told:
        return None
    # The first pass contains the whole start of the program, with models that were only tried.
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
        return silent_finding(
            audit,
            "optimizer/missing-parameter",
            spot=spot,
            symptom=built,
            step=audit.step,
            op=stepping.kind,
            phase="program",
            verdict=f"{len(names)} weights get gradients but are never updated: {where} hides "
            "them from parameters()",
            what=f"the optimizer does not have {some}",
            why="A module registers only modules and parameters assigned to it directly. The "
            "contents of a plain list, tuple or dict are not registered, not moved by .to() and "
            "not saved.",
            fix="Use nn.ModuleList or nn.ModuleDict (nn.ParameterList for parameters).",
            patch=_registered(spot, lost),
        )
    if (added := _added_later(audit, stepping, lost)) is not None:
        return _report_added(audit, stepping, added, names, some)
    left_out, chain = _left_out_at(audit, stepping, names[0])
    return silent_finding(
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
        verdict=f"{len(names)} weights get gradients but are in no optimizer: {some}"
        if len(names) > 1
        else f"{some} gets gradients but is in no optimizer",
        what=f"after {audit.step} steps {'they are' if len(names) > 1 else 'it is'} bit for bit "
        "as initialised",
        why="The loss depends on these weights, but they were not passed to an optimizer, so no "
        "step changes them.",
        fix="Pass them to the optimizer. If they should stay fixed, freeze them with "
        "requires_grad_(False).",
        patch=missing_weights_added(audit, stepping, [each.weight for each in lost])
        if left_out == built
        else None,
    )


def _added_later(audit: Audit, stepping: OptimizerEntry, lost: list[WeightEntry]) -> Site | None:
    """Where a part was built that was added to the model after its optimizer was built."""
    if not stepping.stack:
        return None
    weights = [each.weight for each in lost if each.weight is not None]
    owners = [owner[0] for each in weights if (owner := audit.modules.owner_of(each)) is not None]
    parts = [audit.modules.built_later(each, stepping.modules) for each in owners]
    if len(parts) < len(lost) or not parts or None in parts:
        return None
    stack = audit.modules.built_at(parts[0]) if parts[0] is not None else ()
    return stack[0] if stack else None


def _report_added(
    audit: Audit, stepping: OptimizerEntry, added: Site, names: list[str], some: str
) -> Finding | None:
    are = "are" if len(names) > 1 else "is"
    return silent_finding(
        audit,
        "optimizer/missing-parameter",
        spot=Spot.of_site(added),
        symptom=spot_at(stepping.stack[0]),
        step=audit.step,
        op=stepping.kind,
        phase="program",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"{some} {are} never updated: added after {stepping.kind} was built",
        what=f"after {audit.step} steps {'they are' if len(names) > 1 else 'it is'} bit for bit "
        "as initialised",
        why="An optimizer only has the parameters that it received. A layer that is added to the "
        "model later gets gradients, but no update.",
        fix="Pass the layer to the optimizer where it is added, "
        "optimizer.add_param_group({'params': layer.parameters()}), or build the optimizer when "
        "the model is complete.",
    )


def _nearest(audit: Audit, name: str) -> OptimizerEntry:
    """The stepping optimizer whose weights are closest to a weight in the model; else the last."""
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
    """The length of the common prefix of two paths."""
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


def _left_out_at(
    audit: Audit, stepping: OptimizerEntry, name: str
) -> tuple[Spot | None, tuple[Hop, ...]]:
    """The line that should have passed a weight to an optimizer, and related lines."""
    twins = _twins(audit)
    if twins is not None:
        return twins[0], (twins[1].hop("has the same weights as that optimizer"),)
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
    return built, tuple(each.hop(f"selects weights by name, but not {name}") for each in picks)


def _root(name: str) -> str:
    """The model that a weight is part of."""
    return name.split(".")[0]


def _picked_by_name(site: Site) -> list[Spot]:
    """Lines that filter `named_parameters()`, in the function that builds the optimizer."""
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
    """Two optimizers that received the same weights: one was probably meant for others."""
    stepping = [each for each in audit.built if each.steps and each.stack]
    for one, other in combinations(stepping, 2):
        if one.weights == other.weights and one.stack[0] != other.stack[0]:
            return Spot.of_site(one.stack[0]), Spot.of_site(other.stack[0])
    return None


def _registered(spot: Spot, lost: list[WeightEntry]) -> str | None:
    """Wrap the list or dict in PyTorch's container, by the file's name for torch.nn."""
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
        and not _is_rewritten(audit, entry)
    ]


def _is_rewritten(audit: Audit, entry: WeightEntry) -> bool:
    """Whether the program writes to it after its first use, so equal values may be coincidence."""
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
    """A plain container on a module that hides weights: the line that creates it, and its name."""
    for module in scene.modules.known():
        # A recurrent layer keeps its own weights in a list as well.
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
        A layer or a parameter was replaced after the optimizer had been built. The optimizer still
        has the old tensors; the new ones get gradients but no update. Or it received the parameters
        of a different network from the one that runs.
    Why it matters
        The new layer keeps its initial values, while everything seems to work.
    How it is detected
        There are weights with gradients that no optimizer has, and weights of the optimizer that no
        module has any more.
    How to fix it
        Replace first, then build the optimizer; or use add_param_group.
    When it stays silent
        For `.to()` and load_state_dict, which keep the tensors; for old layers that are still used
        elsewhere.
    Cost
        A check of each weight in a few recorded steps.
    """
    if audit.step < ENOUGH and not audit.final:
        return None
    # The first pass contains the whole start of the program, with models that were only tried.
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
            return _report_copy(audit, entry, names, copied)
        if _was_there_before(audit, entry, weight):
            return _of_another(audit, entry, names, len(left))
        spot = _where_replaced(audit, weight)
        return silent_finding(
            audit,
            "optimizer/stale-parameter",
            spot=spot or (Spot.of_site(entry.stack[0]) if entry.stack else None),
            symptom=Spot.of_site(entry.stack[0]) if entry.stack else None,
            step=audit.step,
            op=entry.kind,
            phase="program",
            verdict=f"{', '.join(names[:2])} {'is' if len(names) == 1 else 'are'} never updated: "
            "replaced after the optimizer was built",
            what=f"the optimizer still has {len(left)} "
            f"{'tensor' if len(left) == 1 else 'tensors'} that the model no longer uses",
            why="An optimizer keeps the tensors that it received. It does not see parameters "
            "that are assigned to the model later.",
            fix="Build the optimizer after the replacement, or pass the new parameters to "
            "add_param_group.",
            patch=built_after(entry, _replacing(audit, weight)),
        )
    return None


def _was_there_before(audit: Audit, entry: OptimizerEntry, weight: torch.Tensor) -> bool:
    """Whether the model already had this weight when the optimizer was built."""
    owner = audit.modules.owner_of(weight)
    if owner is None or _replacing(audit, weight)[:1] != audit.modules.built_at(owner[0])[:1]:
        return False
    return audit.modules.is_older(owner[0], entry.modules)


def _of_another(
    audit: Audit, entry: OptimizerEntry, names: list[str], others: int
) -> Finding | None:
    """Report an optimizer built for another network: a second one of its kind, or a copy."""
    some = ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
    return silent_finding(
        audit,
        "optimizer/stale-parameter",
        spot=Spot.of_site(entry.stack[0]) if entry.stack else None,
        step=audit.step,
        op=entry.kind,
        phase="program",
        verdict=f"{entry.kind} has the weights of another network: the trained ones, {some}, are "
        "never updated",
        what=f"none of the optimizer's {others} {'tensor' if others == 1 else 'tensors'} takes "
        "part in the loss",
        why="A network that is built again, or copied, has its own weights. An optimizer only "
        "changes the weights that it received.",
        fix="Pass the parameters of the network that computes the loss.",
    )


def _report_copy(
    audit: Audit, entry: OptimizerEntry, names: list[str], copied: tuple[Site, ...]
) -> Finding | None:
    """Report an optimizer whose weights were never part of the trained model."""
    return silent_finding(
        audit,
        "optimizer/stale-parameter",
        spot=Spot.of_site(entry.stack[0]),
        symptom=Spot.of_site(copied[0]),
        step=audit.step,
        op=entry.kind,
        phase="program",
        verdict=f"the optimizer has the weights of a copy: {', '.join(names[:2])} "
        f"{'gets gradients but is' if len(names) == 1 else 'get gradients but are'} never updated",
        what="the copy is created here",
        why="A copy has its own weights. The loss is computed with the original model.",
        fix="Pass the parameters of the model that is trained to the optimizer.",
    )


def _is_used_since(audit: Audit, weight: torch.Tensor, step: int) -> bool:
    """Whether a weight took part in a pass as late as this step, even outside of modules."""
    known = audit.weights.entry_of(weight)
    return known is not None and known.gradients > 0 and known.step >= step


def _where_replaced(audit: Audit, weight: torch.Tensor) -> Spot | None:
    """Where the new layer was put in place, or the statement that assigned the parameter."""
    stack = _replacing(audit, weight)
    if stack and stack[:1] == audit.modules.registered_at(weight)[:1]:
        # Not registered by the constructor of its layer.
        return Spot.of_site(stack[0])
    return put_in_place(stack) or Spot.of_site(stack[0]) if stack else None


def _replacing(audit: Audit, weight: torch.Tensor) -> tuple[Site, ...]:
    """The lines that built the new layer, or assigned the parameter."""
    owner = audit.modules.owner_of(weight)
    registered = audit.modules.registered_at(weight) or audit.modules.copied_at(weight)
    # The layer itself may have been replaced; its own constructor registered the weight.
    stack = audit.modules.built_at(owner[0]) if owner is not None else registered
    return registered if registered and registered[:1] != stack[:1] else stack
