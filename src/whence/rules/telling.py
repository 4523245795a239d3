"""Build findings from what a rule found."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from whence.finding import Confidence, Finding, Hop, Operand, Origin, Proof, Severity, Symptom
from whence.lineage.looking import is_array, picture_shape
from whence.lineage.trail import Birth, Trail
from whence.source.handlers import Fate
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.tape.failed import FailedCall
from whence.tape.readable import is_readable
from whence.tape.scene import Scene
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def shape_text(shape: Any) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def describe(thing: Any) -> str:
    """A short description of a value: kind, shape, dtype, and its first elements."""
    if isinstance(thing, Value):
        return f"{shape_text(thing.shape)} {dtype_name(thing.dtype)}"
    if isinstance(thing, torch.Tensor):
        device = "" if thing.device.type == "cpu" else f" on {thing.device}"
        return f"{shape_text(thing.shape)} {dtype_name(thing.dtype)}{device}{_glimpse(thing)}"
    if is_array(thing):
        return f"numpy {shape_text(thing.shape)} {thing.dtype}"
    if (shape := picture_shape(thing)) is not None:
        return f"PIL image {shape_text(shape)}, mode {thing.mode}"
    if isinstance(thing, nn.Module):
        return f"{type(thing).__name__}({settings_of(thing)})"
    if isinstance(thing, tuple | list):
        inside = ", ".join(describe(each) for each in thing[:3])
        return (
            f"{type(thing).__name__} of {len(thing)}: {inside}"
            if thing
            else f"empty {type(thing).__name__}"
        )
    text = (
        repr(thing)
        if isinstance(thing, int | float | str | bool | type(None))
        else type(thing).__name__
    )
    return text if len(text) < 60 else text[:57] + "..."


def _glimpse(tensor: torch.Tensor) -> str:
    if not is_readable(tensor) or tensor.is_sparse or tensor.numel() == 0:
        return ""
    first = tensor.detach().reshape(-1)[:3].tolist()
    text = ", ".join(f"{each:.4g}" if isinstance(each, float) else str(each) for each in first)
    return f"  [{text}{', ...' if tensor.numel() > 3 else ''}]"


def settings_of(layer: nn.Module) -> str:
    """The extra_repr of PyTorch's own layers; the program's may run anything."""
    return layer.extra_repr() if type(layer).__module__.startswith("torch.nn.") else ""


def layer_text(layer: nn.Module, path: str) -> str:
    """A layer as the user would name it: `Net.fc1 = Linear(in_features=400, ...)`."""
    return f"{path} = {type(layer).__name__}({settings_of(layer)})"


def has_worked(failed: FailedCall) -> bool:
    """Whether the failing line has succeeded before, so that its inputs decide."""
    return any(
        each.site == failed.call.site for each in failed.tape.calls if each is not failed.call
    )


def failure_finding(
    failed: FailedCall,
    rule: str,
    *,
    verdict: str,
    why: str,
    fix: str,
    trail: Trail | None = None,
    spot: Spot | None = None,
    patch: str | None = None,
    confidence: Confidence = Confidence.PROVEN,
    severity: Severity = Severity.ERROR,
    counterfactual: str | None = None,
    chain: tuple[Hop, ...] = (),
    operands: tuple[Operand, ...] = (),
    table: tuple[str, ...] = (),
) -> Finding | None:
    """Build the finding of a failed call; its origin is `spot`, the trail's, or the call's."""
    surfaced = failed.surfaced or failed.site
    here = Spot.of_site(surfaced) if surfaced is not None else None
    if here is None:
        # No line of the program is running; use its loader or place.
        here = failed.place or (failed.fetching.info.built if failed.fetching is not None else None)
    trail = trail or Trail(Birth.UNKNOWN)
    born = spot or trail.spot or here
    if born is None or here is None:
        return None
    from_trail = spot is None and trail.spot is not None
    return Finding(
        rule=rule,
        severity=Severity.INFO if failed.fate is Fate.MENDED else severity,
        confidence=confidence,
        verdict=verdict,
        origin=Origin(
            file=born.file,
            line=born.line,
            code=born.code,
            function=born.function,
            op=trail.op if from_trail else failed.name,
            module=_module_path(failed) if not from_trail else trail.module,
            phase=trail.phase if from_trail else failed.call.phase,
            step=failed.call.step,
            sample=trail.sample,
        ),
        symptom=Symptom(
            file=here.file,
            line=here.line,
            code=here.code,
            step=failed.call.step,
            what=_raised(failed.exception),
        ),
        chain=(*chain, *_without_repeats(trail.hops, born, here)),
        why=why,
        fix=fix,
        patch=None if _is_written_elsewhere(failed.call, born) else patch,
        proof=Proof(replay=None, counterfactual=counterfactual),
        span=born.span,
        operands=operands,
        table=table,
    )


def _module_path(failed: FailedCall) -> str | None:
    module = failed.scope.module if failed.scope is not None else None
    return failed.modules.path_of(module) if module is not None else None


def _raised(exception: BaseException) -> str:
    first = str(exception).strip().splitlines()
    return f"{type(exception).__name__}: {first[0]}" if first else type(exception).__name__


def _without_repeats(hops: tuple[Hop, ...], *ends: Spot) -> tuple[Hop, ...]:
    taken = {(end.file, end.line) for end in ends}
    kept = []
    for hop in hops:
        if (hop.file, hop.line) not in taken:
            taken.add((hop.file, hop.line))
            kept.append(hop)
    return tuple(kept)


def silent_finding(
    scene: Scene,
    rule: str,
    *,
    spot: Spot | None,
    verdict: str,
    why: str,
    fix: str,
    what: str,
    symptom: Spot | None = None,
    step: int | None = None,
    call: Call | None = None,
    op: str | None = None,
    phase: str = "program",
    severity: Severity = Severity.ERROR,
    confidence: Confidence = Confidence.PROVEN,
    chain: tuple[Hop, ...] = (),
    operands: tuple[Operand, ...] = (),
    patch: str | None = None,
    replay: str | None = None,
    counterfactual: str | None = None,
) -> Finding | None:
    """Build the finding of a mistake that raised nothing; `what` is its effect at `symptom`."""
    spot = spot or symptom
    if spot is None:
        return None
    seen = symptom or spot
    ends = {(spot.file, spot.line), (seen.file, seen.line)}
    module = getattr(call.module, "module", None) if call is not None else None
    return Finding(
        rule=rule,
        severity=severity,
        confidence=confidence,
        verdict=verdict,
        origin=Origin(
            file=spot.file,
            line=spot.line,
            code=spot.code,
            function=spot.function,
            op=op or (call.name if call is not None else None),
            module=scene.modules.path_of(module) if isinstance(module, nn.Module) else None,
            phase=call.phase if call is not None else phase,
            step=step,
        ),
        symptom=Symptom(file=seen.file, line=seen.line, code=seen.code, step=step, what=what),
        chain=tuple(hop for hop in chain if (hop.file, hop.line) not in ends),
        why=why,
        fix=fix,
        patch=None if call is not None and _is_written_elsewhere(call, spot) else patch,
        proof=Proof(replay=replay, counterfactual=counterfactual),
        span=spot.span,
        operands=operands,
    )


def call_finding(
    call: Call,
    rule: str,
    *,
    verdict: str,
    what: str,
    why: str,
    fix: str,
    severity: Severity = Severity.WARNING,
    patch: str | None = None,
) -> Finding | None:
    """Build the finding of a single call that succeeded but is a mistake."""
    spot = spot_at(call.site)
    if spot is None:
        return None
    return Finding(
        rule=rule,
        severity=severity,
        confidence=Confidence.PROVEN,
        verdict=verdict,
        origin=Origin(
            spot.file,
            spot.line,
            spot.code,
            spot.function,
            phase=call.phase,
            step=call.step,
            op=call.name,
        ),
        symptom=Symptom(spot.file, spot.line, spot.code, what=what, step=call.step),
        why=why,
        fix=fix,
        patch=None if _is_written_elsewhere(call, spot) else patch,
        span=spot.span,
    )


def _is_written_elsewhere(call: Call, spot: Spot) -> bool:
    """Whether a library makes the call, so that an edit of the reported line would miss it."""
    site = call.site
    return (
        site is not None
        and site.is_indirect
        and (spot.filename, spot.line) == (site.filename, site.f_lineno)
    )


def spot_at(site: Site | None) -> Spot | None:
    return Spot.of_site(site) if site is not None else None


def place_of(call: Call, scene: Scene) -> Spot | None:
    """The program line of a call, or the layer's constructor if only containers call it."""
    scope = call.module if isinstance(call.module, Scope) else None
    if scope is not None and scope.module is not None:
        parent = scope.parent.module if scope.parent is not None else None
        contained = _is_torchs(scope.module) and parent is not None and _is_torchs(parent)
        stack = scene.modules.built_at(scope.module)
        if stack and (
            contained
            or (call.site is not None and call.site.is_indirect and not stack[0].is_indirect)
        ):
            return Spot.of_site(stack[0])
    return Spot.of_site(call.site) if call.site is not None else None


def _is_torchs(module: nn.Module) -> bool:
    return type(module).__module__.startswith("torch.nn")
