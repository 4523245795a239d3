"""Tensors on the wrong device."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.properties import HasDevice
from whence.lineage.trail import trace, where_built
from whence.rules.device.absent import absent_device
from whence.rules.device.attributes import before_super_init, tensor_for_parameter
from whence.rules.device.computed import refused_by_optimizer
from whence.rules.operations import weight_of
from whence.rules.rule import rule
from whence.rules.telling import describe, failure_finding, shape_text
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import statement_of, text_of
from whence.tape.failed import FailedCall
from whence.tape.scopes import parts_of, weights_within
from whence.tape.tape import Value


def _stray_operand(failed: FailedCall) -> tuple[torch.Tensor, torch.device] | None:
    """The operand on another device than the model's weights, or the others, and that device."""
    tensors = [each for each in failed.tensors() if each.dim() > 0 or each.device.type != "cpu"]
    places = {each.device for each in tensors}
    if len(places) < 2:
        return None
    home = _home(failed, tensors)
    stray = [each for each in tensors if each.device != home]
    return (stray[0], home) if stray else None


def _home(failed: FailedCall, tensors: list[torch.Tensor]) -> torch.device:
    """The device of most of the model's parameters, or else the one that is not the CPU."""
    scope = failed.scope
    root = list(scope.lineage())[-1].module if scope is not None else None
    if root is None:
        # A method of the model that is not its forward.
        owners = (_registered_by(failed, each) for each in tensors)
        root = next((each[0] for each in owners if each is not None), None)
    counts: dict[torch.device, int] = {}
    for parameter in weights_within(root) if root is not None else ():
        counts[parameter.device] = counts.get(parameter.device, 0) + 1
    if counts:
        return max(counts, key=lambda device: counts[device])
    weight = weight_of(failed)
    if weight is not None:
        return weight.device
    return next((each.device for each in tensors if each.device.type != "cpu"), tensors[0].device)


def _sources_of(failed: FailedCall, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor and the tensors it was made from."""
    value: Value | None = failed.value(tensor)
    for _ in range(10):
        if value is None:
            return
        if value.tensor is not None:
            yield value.tensor
        value = value.call.operands[0] if value.call is not None and value.call.operands else None


def _held_by(
    failed: FailedCall, tensor: torch.Tensor
) -> tuple[nn.Module, str, torch.Tensor] | None:
    """The module that holds the tensor, or a tensor it is part of, as a plain attribute."""
    for whole in _sources_of(failed, tensor):
        if (holder := failed.modules.holder_of(whole)) is not None:
            return *holder, whole
    return None


def _registered_by(failed: FailedCall, tensor: torch.Tensor) -> tuple[nn.Module, str] | None:
    """The module that owns the tensor, or a tensor it is part of, as a parameter or buffer."""
    owners = (
        failed.modules.owner_of(each)
        for each in _sources_of(failed, tensor)
        if each.device == tensor.device
    )
    return next((each for each in owners if each is not None), None)


def _built_in_forward(failed: FailedCall, tensor: torch.Tensor) -> nn.Module | None:
    """The layer that owns a parameter, if it was built while the model ran."""
    owner = failed.modules.owner_of(tensor)
    scope = failed.scope
    root = list(scope.lineage())[-1].module if scope is not None else None
    if owner is None or root is None or any(owner[0] is each for each in parts_of(root)):
        return None
    return owner[0]


@rule("device/module-in-forward")
def module_in_forward(failed: FailedCall) -> Finding | None:
    """A layer with parameters is rebuilt in every forward pass.

    What happened
        forward constructs a layer. Its weights are new in each step, on the default device, and in
        no optimizer.
    Why it matters
        On a GPU it raises; on the CPU it runs, and the layer never learns.
    How it is detected
        The weight on the wrong device belongs to a module that the running model does not own.
    How to fix it
        Build the layer once, in __init__.
    When it stays silent
        Layers without parameters, and layers that the model owns.
    Cost
        None until a call raises.
    """
    found = _stray_operand(failed)
    layer = _built_in_forward(failed, found[0]) if found is not None else None
    if found is None or layer is None:
        return None
    stack = failed.modules.built_at(layer)
    return failure_finding(
        failed,
        "device/module-in-forward",
        verdict=f"a {type(layer).__name__} is built inside forward, on {found[0].device} instead "
        f"of {found[1]}",
        spot=Spot.of_site(stack[0]) if stack else None,
        why="The layer is new in every step: it is not moved with the model, and no optimizer has "
        "its weights.",
        fix="Build the layer once in __init__ and call it here.",
        operands=(Operand("weight", describe(found[0])),),
    )


@rule("device/unregistered-tensor")
def unregistered_tensor(failed: FailedCall) -> Finding | None:
    """A tensor that the model does not own was not moved with it.

    What happened
        A module holds a tensor as a plain attribute. model.to(device) moves parameters and buffers,
        but not this tensor. Or its __init__ assigns layers before it calls super().__init__(),
        which raises.
    Why it matters
        It raises on a GPU, and the tensor is missing from every checkpoint.
    How it is detected
        The operand on the wrong device is an attribute of a module (or a part of one) that is
        neither parameter nor buffer.
    How to fix it
        register_buffer("name", tensor) in __init__.
    When it stays silent
        Parameters, buffers, and tensors that no module holds.
    Cost
        None until a call raises.
    """
    if (refused := before_super_init(failed)) is not None:
        return refused
    found = _stray_operand(failed)
    kept = _held_by(failed, found[0]) if found is not None else None
    if found is None or kept is None or (kept[2].requires_grad and not kept[2].is_leaf):
        return None
    module, name, tensor = kept
    spot = where_built(module, name, failed)
    return failure_finding(
        failed,
        "device/unregistered-tensor",
        verdict=f"{type(module).__name__}.{name} is on {tensor.device}, the model is on {found[1]}",
        spot=spot,
        why=f"self.{name} is a plain attribute; to() moves only parameters and buffers.",
        fix=f'Register it as a buffer: self.register_buffer("{name}", ...). A buffer is moved and '
        "saved with the model.",
        patch=_buffer_patch(spot, name),
        operands=(Operand(name, describe(tensor)),),
    )


def _buffer_patch(spot: Spot | None, name: str) -> str | None:
    node = spot.node() if spot is not None else None
    statement = statement_of(node) if node is not None else None
    if spot is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if not isinstance(target, ast.Attribute) or target.attr != name:
        return None
    value = text_of(spot.filename, statement.value)
    return diff_of(
        replace_node(
            spot.filename,
            statement,
            f'{text_of(spot.filename, target.value)}.register_buffer("{name}", {value})',
        )
    )


@rule("device/optimizer-state")
def optimizer_state(failed: FailedCall) -> Finding | None:
    """Optimizer state and parameter are on different devices.

    What happened
        A tensor that the optimizer holds for a parameter is on another device than the parameter.
    Why it matters
        It fails inside step(), far from where the state was created or loaded.
    How it is detected
        A call inside an optimizer's step has operands on two devices; the stray operand is traced
        to its origin.
    How to fix it
        Create the state with zeros_like(p), load it with map_location, or move the model before the
        optimizer is built.
    When it stays silent
        State that is on the parameter's device.
    Cost
        None until a call raises.
    """
    found = _stray_operand(failed)
    if found is None or failed.call.phase != "optimizer":
        return None
    trail = trace(failed.value(found[0]), HasDevice(found[0].device), failed)
    return failure_finding(
        failed,
        "device/optimizer-state",
        verdict=f"optimizer state {shape_text(found[0].shape)} is on {found[0].device}, its "
        f"parameter on {found[1]}",
        trail=trail,
        why="An update needs the parameter, its gradient and the optimizer state on one device.",
        fix="Create the state like the parameter (torch.zeros_like(p)), or load it with "
        "map_location.",
        operands=(Operand("state", describe(found[0])),),
    )


@rule("device/mismatch")
def device_mismatch(failed: FailedCall) -> Finding | None:
    """Operands are on different devices.

    What happened
        A call received tensors on different devices; usually a batch, a target or a new tensor was
        not moved. Or a device is missing: `.to("cuda")` on a machine without a GPU, or with a CPU
        build of PyTorch.
    Why it matters
        PyTorch's message calls the operands mat1 and mat2; the finding names the stray tensor and
        the line that created it.
    How it is detected
        The devices of the operands are compared with the device of the model's weights, and the
        stray operand is traced to its origin. A device that the failed call names and PyTorch does
        not see is traced to the line that chooses it.
    How to fix it
        Create the tensor on the right device, or move it: x = x.to(device). Without the assignment
        the tensor is not moved. Choose an available device:
        "cuda" if torch.cuda.is_available() else "cpu".
    When it stays silent
        Python numbers and 0-dimensional tensors, which PyTorch moves by itself; a program that
        tries a device and falls back to another.
    Cost
        None until a call raises.
    """
    if (absent := absent_device(failed)) is not None:
        return absent
    found = _stray_operand(failed)
    if (
        found is None
        or failed.call.phase == "optimizer"
        or _held_by(failed, found[0])
        or _built_in_forward(failed, found[0])
    ):
        return None
    stray, home = found
    owned = _registered_by(failed, stray)
    if owned is not None and stray.device.type == "meta":
        return _still_on_meta(failed, *owned, home)
    discarded = _discarded_move(failed, stray, home)
    trail = trace(failed.value(stray), HasDevice(stray.device), failed)
    role = "a weight" if isinstance(stray, nn.Parameter) else "data"
    return failure_finding(
        failed,
        "device/mismatch",
        verdict=f"{role} {shape_text(stray.shape)} is on {stray.device}, the other operands of "
        f"{failed.name} on {home}",
        trail=trail,
        spot=discarded,
        why=f"{failed.name} needs all its tensors on one device."
        + (
            " The tensor was moved, but the moved copy was discarded: to() does not work in place."
            if discarded is not None
            else ""
        ),
        fix=f"Assign the result: x = x.to({str(home)!r})."
        if discarded is not None
        else f"Create the tensor with device={str(home)!r}, or move it before use: "
        "x = x.to(device).",
        operands=tuple(
            Operand(f"operand {number}", describe(each))
            for number, each in enumerate(failed.tensors())
        ),
    )


def _still_on_meta(
    failed: FailedCall, module: nn.Module, name: str, home: torch.device
) -> Finding | None:
    """A model built on meta whose checkpoint did not fill every tensor."""
    is_left_out = name in module._non_persistent_buffers_set
    return failure_finding(
        failed,
        "device/mismatch",
        verdict=f"{type(module).__name__}.{name} is still on meta, without memory; the model is on "
        f"{home}",
        spot=where_built(module, name, failed),
        why="The model was built on the meta device, and nothing has filled this tensor since."
        + (" With persistent=False it is in no checkpoint." if is_left_out else ""),
        fix="Create the tensor again after loading, on the right device"
        + (
            ", or save it with the model: persistent=True."
            if is_left_out
            else ", or load a checkpoint that contains it."
        ),
        operands=tuple(
            Operand(f"operand {number}", describe(each))
            for number, each in enumerate(failed.tensors())
        ),
    )


def _discarded_move(failed: FailedCall, stray: torch.Tensor, home: torch.device) -> Spot | None:
    """`x.to(device)` without an assignment: the moved copy is gone."""
    value = failed.value(stray)
    for call in reversed(failed.tape.calls):
        if call.name in ("to", "cuda") and call.operands[:1] == (value,) and call.outputs:
            moved = call.outputs[0]
            if moved.device == home and moved.tensor is None and call.site is not None:
                return Spot.of_site(call.site)
    return None


@rule("device/parameter-copy")
def parameter_copy(failed: FailedCall) -> Finding | None:
    """nn.Parameter(...) was transformed, so the module no longer owns it.

    What happened
        An attribute was set to nn.Parameter(...) followed by arithmetic or .to(). The result is an
        ordinary tensor that is not moved, saved or trained with the module.
    Why it matters
        On the CPU nothing raises, and the optimizer never gets the parameter.
    How it is detected
        A module holds a tensor computed from a parameter that no module owns. Or an optimizer
        receives a tensor that is not a leaf and rejects it. Or a plain tensor is assigned to the
        name of a parameter.
    How to fix it
        Transform first, then wrap: nn.Parameter(torch.randn(...) * 0.1).
    When it stays silent
        Tensors that are not computed from a parameter; parametrizations.
    Cost
        None until a call raises.
    """
    if (refused := refused_by_optimizer(failed) or tensor_for_parameter(failed)) is not None:
        return refused
    found = _stray_operand(failed)
    kept = _held_by(failed, found[0]) if found is not None else None
    if found is None or kept is None or kept[2].is_leaf or not kept[2].requires_grad:
        return None
    module, name, tensor = kept
    made = failed.value(tensor).call
    return failure_finding(
        failed,
        "device/parameter-copy",
        verdict=f"{type(module).__name__}.{name} is computed from a parameter, not a parameter "
        "itself",
        spot=Spot.of_site(made.site) if made is not None and made.site is not None else None,
        why=f"{made.name if made is not None else 'An operation'} transformed nn.Parameter(...) "
        f"before the assignment. self.{name} is an ordinary tensor that to() does not move and no "
        "optimizer trains.",
        fix="Transform first, then wrap: nn.Parameter(torch.randn(...) * scale).",
        operands=(Operand(name, describe(tensor)),),
    )
