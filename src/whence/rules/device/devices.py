"""Tensors in the wrong place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch
from torch import nn

from whence.finding import Finding, Operand
from whence.lineage.properties import HasDevice
from whence.lineage.trail import trace, where_built
from whence.rules.device.absent import absent_device
from whence.rules.device.attributes import before_it_began, no_parameter
from whence.rules.device.computed import refused_by_optimizer
from whence.rules.operations import weight_of
from whence.rules.rule import rule
from whence.rules.telling import describe, shape_text, tell
from whence.source.edits import diff_of, replace_node
from whence.source.spots import Spot
from whence.source.text import statement_of, text_of
from whence.tape.failed import FailedCall
from whence.tape.scopes import parts_of, weights_within
from whence.tape.tape import Value


def _left_behind(failed: FailedCall) -> tuple[torch.Tensor, torch.device] | None:
    """The operand that is not where the others are, and where that is: with the model's weights, if any take part."""
    tensors = [each for each in failed.tensors() if each.dim() > 0 or each.device.type != "cpu"]
    places = {each.device for each in tensors}
    if len(places) < 2:
        return None
    home = _home(failed, tensors)
    stray = [each for each in tensors if each.device != home]
    return (stray[0], home) if stray else None


def _home(failed: FailedCall, tensors: list[torch.Tensor]) -> torch.device:
    """Where the model lives: most of its parameters, or else what is not the plain CPU."""
    scope = failed.scope
    root = list(scope.lineage())[-1].module if scope is not None else None
    if root is None:
        # A method of the model's that is no forward.
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


def _wholes(failed: FailedCall, tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor, and what it was made from."""
    value: Value | None = failed.value(tensor)
    for _ in range(10):
        if value is None:
            return
        if value.tensor is not None:
            yield value.tensor
        value = value.call.operands[0] if value.call is not None and value.call.operands else None


def _kept_by(
    failed: FailedCall, tensor: torch.Tensor
) -> tuple[nn.Module, str, torch.Tensor] | None:
    """The module that keeps the tensor, or what it is a part of, as a plain attribute."""
    for whole in _wholes(failed, tensor):
        if (holder := failed.modules.holder_of(whole)) is not None:
            return *holder, whole
    return None


def _registered_by(failed: FailedCall, tensor: torch.Tensor) -> tuple[nn.Module, str] | None:
    """The module that has the tensor, or what it is a part of, as a parameter or buffer."""
    owners = (
        failed.modules.owner_of(each)
        for each in _wholes(failed, tensor)
        if each.device == tensor.device
    )
    return next((each for each in owners if each is not None), None)


def _built_in_forward(failed: FailedCall, tensor: torch.Tensor) -> nn.Module | None:
    """The layer that a parameter belongs to, if it was built while the model ran."""
    owner = failed.modules.owner_of(tensor)
    scope = failed.scope
    root = list(scope.lineage())[-1].module if scope is not None else None
    if owner is None or root is None or any(owner[0] is each for each in parts_of(root)):
        return None
    return owner[0]


@rule("device/module-in-forward")
def module_in_forward(failed: FailedCall) -> Finding | None:
    """A layer with parameters is built anew in every forward pass.

    What happened
        forward constructs a layer. Its weights are new in each step, on the default device, and known to no optimizer.
    Why it matters
        On a GPU it raises; on the CPU it runs, and the layer never learns.
    How it is detected
        The weight that is in the wrong place belongs to a module that the running model does not own.
    How to fix it
        Build it once, in __init__.
    When it stays silent
        Layers without parameters, and layers that the model owns.
    Cost
        None until a call raises.
    """
    found = _left_behind(failed)
    layer = _built_in_forward(failed, found[0]) if found is not None else None
    if found is None or layer is None:
        return None
    stack = failed.modules.built_at(layer)
    return tell(
        failed,
        "device/module-in-forward",
        verdict=f"a {type(layer).__name__} is built inside forward, on {found[0].device} instead of {found[1]}",
        spot=Spot.of_site(stack[0]) if stack else None,
        why="It is new in every step: never moved with the model, never trained, known to no optimizer.",
        fix="Build it once in __init__ and use it here.",
        operands=(Operand("weight", describe(found[0])),),
    )


@rule("device/unregistered-tensor")
def unregistered_tensor(failed: FailedCall) -> Finding | None:
    """A tensor that the model does not own was not moved with it.

    What happened
        A module keeps a tensor as a plain attribute. model.to(device) moves parameters and buffers, and not this one. Or its __init__
        gives it layers before it has called super().__init__(), and they are refused.
    Why it matters
        It raises on a GPU, and is missing in every checkpoint.
    How it is detected
        The operand in the wrong place is an attribute of a module (or a part of one) that is neither parameter nor buffer.
    How to fix it
        register_buffer("name", tensor) in __init__.
    When it stays silent
        Parameters, buffers, and tensors that no module keeps.
    Cost
        None until a call raises.
    """
    if (refused := before_it_began(failed)) is not None:
        return refused
    found = _left_behind(failed)
    kept = _kept_by(failed, found[0]) if found is not None else None
    if found is None or kept is None or (kept[2].requires_grad and not kept[2].is_leaf):
        return None
    module, name, tensor = kept
    spot = where_built(module, name, failed)
    return tell(
        failed,
        "device/unregistered-tensor",
        verdict=f"{type(module).__name__}.{name} stayed on {tensor.device} when the model was moved to {found[1]}",
        spot=spot,
        why=f"self.{name} is a plain attribute: to() moves parameters and buffers only.",
        fix=f'Register it: self.register_buffer("{name}", ...), and it is moved and saved with the model.',
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
    """Optimizer state and parameter live on different devices.

    What happened
        A tensor that the optimizer keeps for a parameter is not where the parameter is.
    Why it matters
        It fails inside step(), far from where the state was made or loaded.
    How it is detected
        A call inside an optimizer's step with operands on two devices; the stray one is followed to where it was made.
    How to fix it
        Make the state with zeros_like(p), load it with map_location, or move the model before the optimizer is built.
    When it stays silent
        State that is on the parameter's device.
    Cost
        None until a call raises.
    """
    found = _left_behind(failed)
    if found is None or failed.call.phase != "optimizer":
        return None
    trail = trace(failed.value(found[0]), HasDevice(found[0].device), failed)
    return tell(
        failed,
        "device/optimizer-state",
        verdict=f"optimizer state of {shape_text(found[0].shape)} is on {found[0].device}, its parameter on {found[1]}",
        trail=trail,
        why="An update needs the parameter, its gradient and the optimizer's state in one place.",
        fix="Make the state like the parameter (torch.zeros_like(p)), or load it with map_location.",
        operands=(Operand("state", describe(found[0])),),
    )


@rule("device/mismatch")
def device_mismatch(failed: FailedCall) -> Finding | None:
    """Operands live on different devices.

    What happened
        A call was given tensors that are not in one place; usually a batch, a target or a new tensor was not moved. Or something
        was to be put on a device that is not there: `.to("cuda")` on a machine without a GPU, or with a build of torch for the CPU.
    Why it matters
        The message calls them mat1 and mat2; what helps is which tensor stayed behind, and the line that made it.
    How it is detected
        The devices of the operands; the model's weights say where home is, and the stray one is followed to its birth. A device
        that the failed call names and torch does not see is followed to the line that chooses it.
    How to fix it
        Make it on the right device, or move it: x = x.to(device). Without the assignment a tensor does not move. Choose the device
        by what is there: "cuda" if torch.cuda.is_available() else "cpu".
    When it stays silent
        Numbers and tensors without axes, which torch moves by itself; a program that tries a device and has another one ready.
    Cost
        None until a call raises.
    """
    if (absent := absent_device(failed)) is not None:
        return absent
    found = _left_behind(failed)
    if (
        found is None
        or failed.call.phase == "optimizer"
        or _kept_by(failed, found[0])
        or _built_in_forward(failed, found[0])
    ):
        return None
    stray, home = found
    owned = _registered_by(failed, stray)
    if owned is not None and stray.device.type == "meta":
        return _without_memory(failed, *owned, home)
    discarded = _discarded_move(failed, stray, home)
    trail = trace(failed.value(stray), HasDevice(stray.device), failed)
    role = "a weight" if isinstance(stray, nn.Parameter) else "data"
    return tell(
        failed,
        "device/mismatch",
        verdict=f"{role} of {shape_text(stray.shape)} stayed on {stray.device}, {failed.name} works on {home}",
        trail=trail,
        spot=discarded,
        why=f"{failed.name} needs all its tensors in one place."
        + (
            " It was moved, and the moved copy was thrown away: tensors are not moved in place."
            if discarded is not None
            else ""
        ),
        fix=f"Assign the result, x = x.to({str(home)!r})."
        if discarded is not None
        else f"Make it with device={str(home)!r}, or move it before use: x = x.to(device).",
        operands=tuple(
            Operand(f"operand {number}", describe(each))
            for number, each in enumerate(failed.tensors())
        ),
    )


def _without_memory(
    failed: FailedCall, module: nn.Module, name: str, home: torch.device
) -> Finding | None:
    """A model that was built without memory, and was given some of it by a checkpoint that does not have everything."""
    is_left_out = name in module._non_persistent_buffers_set
    return tell(
        failed,
        "device/mismatch",
        verdict=f"{type(module).__name__}.{name} has no memory: it is still on meta, the rest of the model is on {home}",
        spot=where_built(module, name, failed),
        why="The model was built on meta, and what it was given since does not have it."
        + (" With persistent=False it is in no checkpoint." if is_left_out else ""),
        fix="Make it again after loading, on the right device"
        + (
            ", or save it with the model: persistent=True."
            if is_left_out
            else ", or load a checkpoint that has it."
        ),
        operands=tuple(
            Operand(f"operand {number}", describe(each))
            for number, each in enumerate(failed.tensors())
        ),
    )


def _discarded_move(failed: FailedCall, stray: torch.Tensor, home: torch.device) -> Spot | None:
    """`x.to(device)` without an assignment: the copy on the right device is gone."""
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
        An attribute was set to nn.Parameter(...) times, plus or .to() something: the result is an ordinary tensor, which
        is neither moved, nor saved, nor trained with the module.
    Why it matters
        On the CPU nothing raises and the optimizer never sees it.
    How it is detected
        A module keeps a tensor that was computed from a parameter which no module owns; or an optimizer is given a tensor that is
        no leaf, and refuses it; or a plain tensor is assigned to the name of a parameter.
    How to fix it
        Transform first, then wrap: nn.Parameter(torch.randn(...) * 0.1).
    When it stays silent
        Tensors that are not computed from a parameter; parametrizations.
    Cost
        None until a call raises.
    """
    if (refused := refused_by_optimizer(failed) or no_parameter(failed)) is not None:
        return refused
    found = _left_behind(failed)
    kept = _kept_by(failed, found[0]) if found is not None else None
    if found is None or kept is None or kept[2].is_leaf or not kept[2].requires_grad:
        return None
    module, name, tensor = kept
    made = failed.value(tensor).call
    return tell(
        failed,
        "device/parameter-copy",
        verdict=f"{type(module).__name__}.{name} is computed from a parameter, and is none itself",
        spot=Spot.of_site(made.site) if made is not None and made.site is not None else None,
        why=f"nn.Parameter(...) was changed by {made.name if made is not None else 'an operation'} before it was assigned; what self.{name} "
        "holds is an ordinary tensor that to() does not move and no optimizer trains.",
        fix="Transform first and wrap last: nn.Parameter(torch.randn(...) * scale).",
        operands=(Operand(name, describe(tensor)),),
    )
