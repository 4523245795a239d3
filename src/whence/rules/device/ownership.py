"""Tensors that a model uses but does not own, in their silent forms: they never learn."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import nn

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.study import Study
from whence.lineage.trail import where_built
from whence.rules.device.computed import wrap_last_patch
from whence.rules.optimizer.ownership import hiding
from whence.rules.rule import audit_rule, study_rule
from whence.rules.telling import shape_text, silent_finding
from whence.source.definitions import name_in
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import text_of
from whence.tape.scopes import Scope
from whence.tape.tape import Value

FILLS = frozenset(
    {"uniform_", "normal_", "zero_", "fill_", "trunc_normal_", "copy_", "kaiming_uniform_"}
)


@audit_rule("device/unregistered-tensor")
def unregistered_tensor(audit: Audit) -> Finding | None:
    """The silent form: a trainable tensor is a plain attribute, and no optimizer has it."""
    for entry in audit.weights.entries():
        weight = entry.weight
        if (
            weight is None
            or isinstance(weight, nn.Parameter)
            or not weight.requires_grad
            or entry.passes < 2
            or entry.gradients < entry.passes
            or audit.is_owned(weight)
            or entry.has_changed()
        ):
            continue
        holder = audit.modules.holder_of(weight)
        if holder is None:
            found = _in_a_container(audit, weight)
            if found is not None:
                return found
            continue
        module, name = holder
        path = f"{audit.modules.path_of(module)}.{name}"
        spot = where_built(module, name, audit)
        return silent_finding(
            audit,
            "device/unregistered-tensor",
            spot=spot,
            step=audit.step,
            verdict=f"{path} gets gradients but no updates: it is a tensor, not a parameter",
            what=f"unchanged after {audit.step} steps; parameters() does not contain it",
            why="A module registers only nn.Parameter objects. A plain tensor with "
            "requires_grad=True reaches no optimizer, .to() does not move it, and state_dict does "
            "not save it.",
            fix=f"Make it a parameter: self.{name} = nn.Parameter(...).",
            patch=_as_parameter(spot),
        )
    return None


def _in_a_container(audit: Audit, weight: torch.Tensor) -> Finding | None:
    """A tensor in a list, tuple or dict that a module holds."""
    hidden = hiding(audit, lambda each: each is weight)
    if hidden is None:
        return None
    spot, where = hidden
    return silent_finding(
        audit,
        "device/unregistered-tensor",
        spot=spot,
        step=audit.step,
        verdict=f"tensors in {where} get gradients but no updates: they are not parameters",
        what=f"a tensor {shape_text(weight.shape)} is unchanged after {audit.step} steps; "
        "parameters() does not contain it",
        why="A module registers parameters assigned to its attributes. It does not search lists, "
        "tuples or dicts, and a tensor with requires_grad=True is not a parameter.",
        fix="Use nn.ParameterList or nn.ParameterDict, or one nn.Parameter for all of them.",
    )


def _as_parameter(spot: Spot | None) -> str | None:
    """Change `x.requires_grad_()` or `randn(3, requires_grad=True)` to an `nn.Parameter`."""
    node = spot.node() if spot is not None else None
    if (
        spot is None
        or not isinstance(node, ast.Call)
        or (kind := name_in(spot.filename, "torch.nn", "Parameter")) is None
    ):
        return None
    filename = spot.filename
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "requires_grad_"
        and not node.args
    ):
        return diff_of(
            replace_node(filename, node, f"{kind}({text_of(filename, node.func.value)})")
        )
    switched = [each for each in node.keywords if each.arg == "requires_grad"]
    if not switched or ast.unparse(switched[0].value) != "True":
        return None
    given = ", ".join(
        text_of(filename, each) for each in (*node.args, *node.keywords) if each is not switched[0]
    )
    return diff_of(replace_node(filename, node, f"{kind}({text_of(filename, node.func)}({given}))"))


@study_rule("device/parameter-copy")
def parameter_copy(study: Study) -> Finding | None:
    """The silent form: the attribute is computed from a parameter that no module owns."""
    owned = {id(each) for entry in study.built for each in _weights(entry.optimizer)}
    for module in study.modules.known():
        for name, thing in list(vars(module).items()):
            if not isinstance(thing, torch.Tensor) or thing.is_leaf or thing.grad_fn is None:
                continue
            lost = _orphan(thing, owned, study)
            if lost is None:
                continue
            path = f"{study.modules.path_of(module)}.{name}"
            spot = where_built(module, name, study)
            return silent_finding(
                study,
                "device/parameter-copy",
                spot=spot,
                step=study.step,
                verdict=f"{path} never learns: it is computed from a parameter that nothing owns",
                what=f"a parameter {shape_text(lost.shape)} is in no module and in no optimizer",
                why="nn.Parameter(...) followed by arithmetic, .to() or a cast gives an ordinary "
                "tensor; the parameter itself is lost.",
                fix="Compute first, then wrap: nn.Parameter(torch.randn(...) * 0.1).",
                patch=wrap_last_patch(spot),
            )
    return None


def _weights(optimizer: Any) -> list[torch.Tensor]:
    return (
        [each for group in optimizer.param_groups for each in group["params"]]
        if optimizer is not None
        else []
    )


def _orphan(tensor: torch.Tensor, owned: set[int], study: Study) -> torch.Tensor | None:
    """A parameter that a stored tensor was computed from, in no module and no optimizer."""
    pending: list[Any] = [tensor.grad_fn]
    for _ in range(64):
        if not pending:
            return None
        node = pending.pop()
        weight = getattr(node, "variable", None)
        if isinstance(weight, torch.Tensor):
            known = id(weight) in owned or study.modules.owner_of(weight) is not None
            return weight if isinstance(weight, nn.Parameter) and not known else None
        pending += [below for below, _ in getattr(node, "next_functions", ()) if below is not None]
    return None


@study_rule("device/module-in-forward")
def module_in_forward(study: Study) -> Finding | None:
    """The silent form: the weights are new in every pass, and no optimizer has them."""
    if study.step < 1:
        return None
    for call in study.calls:
        scope = call.module if isinstance(call.module, Scope) else None
        times = (
            study.modules.times_built_inside(scope.built)
            if scope is not None and scope.built is not None
            else 0
        )
        if (
            scope is None
            or scope.built is None
            or times < 2
            or not any(_is_new_weight(each) for each in call.operands)
        ):
            continue
        return silent_finding(
            study,
            "device/module-in-forward",
            spot=Spot.of_site(scope.built),
            symptom=Spot.of_site(call.site) if call.site is not None else None,
            call=call,
            step=study.step,
            verdict=f"a {scope.kind} is rebuilt in every forward pass: its weights are random and "
            "never learn",
            what=f"built {times} times so far; no optimizer has its weights",
            why="A layer built in forward has new weights and is discarded when forward returns.",
            fix="Build the layer once in __init__ as an attribute, and call it in forward.",
        )
    return None


def _is_new_weight(value: Value) -> bool:
    """A weight that was initialized just before; it may be gone by now."""
    return value.requires_grad and value.call is not None and value.call.name in FILLS
