"""A state that a module refuses: which names and sizes do not fit, and why."""

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
from whence.rules.telling import shape_text, tell
from whence.source.handlers import Fate
from whence.tape.failed import FailedCall

ID = "checkpoint/not-loaded"


@rule(ID, Rank.CAUSE)
def refused(failed: FailedCall) -> Finding | None:
    """The loud form: load_state_dict raises."""
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
    return tell(
        failed,
        ID,
        verdict=f"load_state_dict was given {'a whole module' if whole else f'a {type(given).__name__}'}, not a state",
        why="A state is a dict of names and tensors, as state_dict() gives it."
        + (" torch.save(model, ...) saves the module itself." if whole else ""),
        fix="Give its state: .state_dict(); or save only that."
        if whole
        else "Give what torch.load(path) returns.",
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
        return tell(
            failed,
            ID,
            verdict="the model was given an optimizer's state",
            why="It has moments and groups in it, and no weights.",
            fix="Load the model's own state; this one is for optimizer.load_state_dict.",
        )
    if found is None:
        return None
    part, shapes = found
    return tell(
        failed,
        ID,
        verdict=f"the whole checkpoint was given to load_state_dict; the weights are in {part}",
        why=f"The checkpoint is a dict of {_some(list(map(str, state)))}; what the model wants is one part of it.",
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
    return tell(
        failed,
        ID,
        verdict=f"the names do not fit: {'all' if found.fitting == len(given) else found.fitting} in the checkpoint "
        f"{'begin with' if found.leads else 'have'} {piece!r}, the model's do not",
        why=f"{_maker(piece)} Without it {found.fitting + as_they_are} of the model's {len(wanted)} weights are met by name and shape"
        + (f"; the other {others} in the checkpoint belong to something else." if others else "."),
        fix="Take it off the names before loading"
        + (", and leave the others out." if others and found.leads else ".")
        + " Or save the state of the part that is loaded again.",
        patch=stripped(failed, found, bool(others))
        if found.fitting + as_they_are == len(wanted)
        and found.is_only_one
        and not (others and (as_they_are or not found.leads))
        else None,
        operands=(Operand("model", type(module).__name__),),
    )


def _maker(piece: str) -> str:
    known = {
        "module.": "DataParallel and DistributedDataParallel put it in front.",
        "_orig_mod.": "torch.compile puts it in front.",
    }
    return known.get(
        piece, f"It was saved from a module that has this one as {piece.rstrip('.')!r}."
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
    return tell(
        failed,
        ID,
        verdict=f"the names do not fit: the model's {'begin with' if found.leads else 'have'} {piece!r}, "
        "those in the checkpoint do not",
        why=f"The checkpoint is that of a part of this model. With {piece!r} {found.fitting} of its {len(given)} names fit.",
        fix=f"Load it into that part: model{path}.load_state_dict(...)."
        if found.leads
        else "Put it into the names.",
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
    return tell(
        failed,
        ID,
        verdict=f"{name} is {shape_text(given[name])} in the checkpoint and {shape_text(wanted[name])} in the model",
        spot=sized.spot,
        why=f"{len(names)} of the model's {len(wanted)} weights have another size than those in the checkpoint ({_some(names)}); "
        f"{fitting} fit." + (f" The model was built with {sized.what}." if sized.what else ""),
        fix=(
            f"Build it with {sized.wanted}"
            if sized.wanted
            else "Build it with the sizes of the checkpoint"
        )
        + "; or, if the new size is meant, leave those weights out of the state and load the rest with strict=False.",
        severity=_if_not_expected(failed),
    )


def _renamed(failed: FailedCall, module: nn.Module, pairs: list[tuple[str, str]]) -> Finding | None:
    if not pairs or not all(one and other for one, other in pairs):
        return None
    told = ", ".join(f"{old} is now {new}" for old, new in pairs[:3])
    return tell(
        failed,
        ID,
        verdict=f"layers have another name in the checkpoint: {told}",
        why="The weights that are missing and those that nobody wants have the same shapes, in the same order.",
        fix="Rename them in the state before loading, or keep the old names in the model.",
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
    sides += [f"has {_some(unexpected)} too much"] if unexpected else []
    return tell(
        failed,
        ID,
        verdict=f"the checkpoint is not of this model: it {' and '.join(sides)}",
        why=f"{fitting} of the model's {len(wanted)} weights are in it by name and shape.",
        fix="Build the model as the one that was saved was built; or, if only the common part is meant, load it with strict=False.",
        severity=_if_not_expected(failed),
    )


def _if_not_expected(failed: FailedCall) -> Severity:
    """Who catches it knows that a checkpoint may be of another model. A prefix nobody wants."""
    return Severity.INFO if failed.fate is Fate.CAUGHT else Severity.ERROR


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
