"""A state that load_state_dict rejects: which keys and sizes do not match, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from whence.finding import Confidence, Finding, Operand, Severity
from whence.rules.checkpoint.edits import appended, into_part, new_name, stripped
from whence.rules.checkpoint.fitting import (
    Shapes,
    Surplus,
    fits,
    renamed,
    shapes_in,
    shapes_of,
    surplus,
    weights_in,
)
from whence.rules.checkpoint.sizes import differing, where_sized
from whence.rules.refusals import refusing
from whence.rules.rule import Rank, rule
from whence.rules.telling import failure_finding, shape_text
from whence.source.handlers import Fate
from whence.tape.failed import FailedCall

ID = "checkpoint/not-loaded"


@rule(ID, Rank.CAUSE)
def refused(failed: FailedCall) -> Finding | None:
    """The form that raises: load_state_dict."""
    names = refusing(failed, nn.Module, "load_state_dict")
    if names is None or "state_dict" not in names:
        return None
    module, state = names["self"], names["state_dict"]
    wanted = shapes_of(module)
    if not isinstance(state, Mapping):
        return _no_state(failed, module, state)
    given = shapes_in(state)
    if not wanted:
        return None
    return (
        _part_of_a_checkpoint(failed, module, state)
        or _too_long(failed, module, surplus(given, wanted), given)
        or _too_short(failed, module, surplus(wanted, given), given)
        or _other_sizes(failed, module, state)
        or _renamed(failed, module, renamed(given, wanted))
        or _other_architecture(failed, module, state)
    )


def _no_state(failed: FailedCall, module: nn.Module, given: Any) -> Finding | None:
    whole = isinstance(given, nn.Module)
    return failure_finding(
        failed,
        ID,
        verdict="load_state_dict expects a state dict, got "
        f"{'a whole module' if whole else f'a {type(given).__name__}'}",
        why="A state is a dict of names and tensors, as state_dict() returns it."
        + (" torch.save(model, ...) saves the module itself." if whole else ""),
        fix="Pass its .state_dict(); or save only the state."
        if whole
        else "Pass the result of torch.load(path).",
        patch=appended(failed, ".state_dict()")
        if isinstance(given, nn.Module)
        and fits(dict(nn.Module.named_parameters(given)), shapes_of(module))
        else None,
    )


def _part_of_a_checkpoint(
    failed: FailedCall, module: nn.Module, state: Mapping[Any, Any]
) -> Finding | None:
    wanted = shapes_of(module)
    found = None if fits(state, wanted) else weights_in(state, wanted)
    if found is None and {"state", "param_groups"} <= state.keys():
        return failure_finding(
            failed,
            ID,
            verdict="the model expects its weights, got an optimizer's state",
            why="The state contains moments and parameter groups, but no weights.",
            fix="Load the model's own state; pass this one to optimizer.load_state_dict.",
        )
    if found is None:
        return None
    part, shapes = found
    return failure_finding(
        failed,
        ID,
        verdict=f"load_state_dict received the whole checkpoint; the weights are in {part}",
        why=f"The checkpoint is a dict with the keys {_some(list(map(str, state)))}. The model's "
        "weights are one part of it.",
        fix=f"Load that part: load_state_dict(checkpoint{part}).",
        patch=appended(failed, part) if dict(shapes) == wanted else None,
    )


def _too_long(
    failed: FailedCall, module: nn.Module, found: Surplus | None, given: Shapes
) -> Finding | None:
    if found is None:
        return None
    wanted = shapes_of(module)
    as_they_are = sum(given.get(name) == shape for name, shape in wanted.items())
    piece = found.piece
    others = len(given) - found.fitting - as_they_are
    return failure_finding(
        failed,
        ID,
        verdict=f"{'all' if found.fitting == len(given) else found.fitting} checkpoint keys "
        f"{'start with' if found.leads else 'contain'} {piece!r}, the model's do not",
        why=f"{_maker(piece)} Without it, {found.fitting + as_they_are} of the model's "
        f"{len(wanted)} weights match by name and shape"
        + (f"; the other {others} in the checkpoint belong to something else." if others else "."),
        fix=f"Remove {piece!r} from the keys before loading"
        + (", and drop the other keys." if others and found.leads else ".")
        + " Or save the state of the inner module.",
        patch=stripped(failed, found, bool(others))
        if found.fitting + as_they_are == len(wanted)
        and found.is_only_one
        and not (others and (as_they_are or not found.leads))
        else None,
        operands=(Operand("model", type(module).__name__),),
    )


def _maker(piece: str) -> str:
    known = {
        "module.": "DataParallel and DistributedDataParallel add this prefix.",
        "_orig_mod.": "torch.compile adds this prefix.",
    }
    return known.get(
        piece, f"The state was saved from a module that contains this one as {piece.rstrip('.')!r}."
    )


def _too_short(
    failed: FailedCall, module: nn.Module, found: Surplus | None, given: Mapping[str, Any]
) -> Finding | None:
    if found is None:
        return None
    piece = found.piece
    target = module
    path = ""
    for name in piece.rstrip(".").split(".") if found.leads else ():
        child = target._modules.get(name)
        if child is None:
            return None
        target, path = child, path + (f"[{name}]" if name.isdigit() else f".{name}")
    whole = found.leads and found.is_only_one and shapes_of(target) == dict(given)
    return failure_finding(
        failed,
        ID,
        verdict=f"the model's keys {'start with' if found.leads else 'contain'} {piece!r}, "
        "the checkpoint's do not",
        why=f"The checkpoint is from a part of this model. With {piece!r}, {found.fitting} of its "
        f"{len(given)} keys match.",
        fix=f"Load it into that part: model{path}.load_state_dict(...)."
        if found.leads
        else f"Add {piece!r} to the keys.",
        patch=into_part(failed, path) if whole else None,
    )


def _other_sizes(failed: FailedCall, module: nn.Module, state: Mapping[Any, Any]) -> Finding | None:
    given, wanted = shapes_in(state), shapes_of(module)
    names = differing(given, wanted)
    if not names:
        return None
    name = names[0]
    sized = where_sized(failed, module, name, given[name], wanted[name])
    fitting = sum(given.get(each) == shape for each, shape in wanted.items())
    return failure_finding(
        failed,
        ID,
        verdict=f"{name} is {shape_text(given[name])} in the checkpoint but "
        f"{shape_text(wanted[name])} in the model",
        spot=sized.spot,
        why=f"{len(names)} of the model's {len(wanted)} weights differ in size from the "
        f"checkpoint ({_some(names)}); {fitting} match."
        + (f" The model was built with {sized.what}." if sized.what else ""),
        fix=(
            f"Build the model with {sized.wanted}"
            if sized.wanted
            else "Build the model with the sizes of the checkpoint"
        )
        + "; or, if the new size is intended, drop those weights from the state and load the "
        "rest with strict=False.",
        severity=_if_not_expected(failed),
    )


def _renamed(failed: FailedCall, module: nn.Module, pairs: list[tuple[str, str]]) -> Finding | None:
    if not pairs or not all(one and other for one, other in pairs):
        return None
    changes = ", ".join(f"{old} is now {new}" for old, new in pairs[:3])
    return failure_finding(
        failed,
        ID,
        verdict=f"layers have other names in the checkpoint: {changes}",
        why="The missing and the unexpected weights have the same shapes, in the same order.",
        fix="Rename the keys in the state before loading, or keep the old names in the model.",
        patch=new_name(failed, *pairs[0]) if len(pairs) == 1 else None,
        confidence=Confidence.LIKELY,
        operands=(Operand("model", type(module).__name__),),
        severity=_if_not_expected(failed),
    )


def _other_architecture(
    failed: FailedCall, module: nn.Module, state: Mapping[Any, Any]
) -> Finding | None:
    given, wanted = shapes_in(state), shapes_of(module)
    missing = [name for name in wanted if name not in state]
    unexpected = [str(name) for name in state if name not in wanted]
    fitting = sum(given.get(each) == shape for each, shape in wanted.items())
    if not missing and not unexpected:
        return None
    sides = [f"lacks {_some(missing)}"] if missing else []
    sides += [f"has extra {_some(unexpected)}"] if unexpected else []
    return failure_finding(
        failed,
        ID,
        verdict=f"the checkpoint does not match the model: it {' and '.join(sides)}",
        why=f"{fitting} of the model's {len(wanted)} weights are in the checkpoint, by name and "
        "shape.",
        fix="Build the model like the saved one; or, if only the common part is needed, load it "
        "with strict=False.",
        severity=_if_not_expected(failed),
    )


def _if_not_expected(failed: FailedCall) -> Severity:
    """A program that catches the error expects that. A prefix is never intended."""
    return Severity.INFO if failed.fate is Fate.CAUGHT else Severity.ERROR


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
