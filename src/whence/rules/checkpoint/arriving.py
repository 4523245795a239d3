"""Weights that were read from a file but never loaded into their module."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from torch import nn

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.contents import Contents, contents_of, tensors_of
from whence.ledgers.loop import Event, Kind
from whence.rules.checkpoint.fitting import HALF, Shapes, surplus
from whence.rules.telling import shape_text, silent_finding, spot_at


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a filter by name selects nothing from a file."""

    reason: str
    example: tuple[str, str]
    """A key in the file and the matching one of the module."""
    fix: str
    is_certain: bool = True


def not_arrived(audit: Audit) -> Finding | None:
    """Report a load right after a file was read that loaded the module's own state, or nothing."""
    events = list(audit.loop.of(Kind.READ, Kind.LOAD, Kind.BEGUN, Kind.STATE))
    for number, read in enumerate(events):
        if read.kind is Kind.READ and read.detail["states"]:
            since = [each for each in events[number + 1 :] if each.kind is not Kind.READ]
            later = [each for each in since if each.kind is not Kind.STATE]
            taken = list(takewhile(lambda each: each.kind is Kind.STATE, since))
            found = _loaded_after(audit, read, later) or _copied_after(audit, read, later, taken)
            if found is not None:
                return found
    return None


def _loaded_after(audit: Audit, read: Event, later: list[Event]) -> Finding | None:
    for load in later:
        if (
            load.kind is Kind.LOAD
            and load.detail["steps"] == read.detail["steps"]
            and load.detail["own"]
        ):
            found = misfit_of(read.detail["states"], load.detail["own"])
            if found is not None and (found.is_certain or not _arrived(load)):
                return _report(audit, read, load, found)
    return None


def _arrived(load: Event) -> int:
    """How many tensors a module received that were not its own."""
    detail = load.detail
    return 0 if detail["aliased"] else max(detail["given"] - len(detail["unexpected"]), 0)


def misfit_of(states: list[Contents], own: Contents) -> Misfit | None:
    """Why a file that is meant for a module does not fit; None if it fits or has arrived anyway."""
    wanted = {name: piece.shape for name, piece in own.items()}
    found = None
    for state in states:
        given = {name: piece.shape for name, piece in state.items()}
        if any(
            piece.is_like(mine)
            for name, piece in state.items()
            if (mine := own.get(name)) is not None
        ):
            # Part of it arrived under its own name, so the rest was omitted on purpose.
            return None
        for longer, shorter, is_files in ((given, wanted, True), (wanted, given, False)):
            piece = surplus(longer, shorter)
            if piece is None:
                continue
            pairs = [pair if is_files else pair[::-1] for pair in piece.pairs(longer, shorter)]
            if any(state[one].is_like(own[other]) for one, other in pairs):
                return None
            where = f"{'start with' if piece.leads else 'contain'} {piece.piece!r}"
            if is_files:
                reason, fix = (
                    f"the file's keys {where}, the module's do not",
                    f"Remove {piece.piece!r} from the file's keys",
                )
            else:
                reason, fix = (
                    f"the module's keys {where}, the file's do not",
                    f"Add {piece.piece!r} to the file's keys",
                )
            found = found or Misfit(reason, pairs[0], fix)
        found = found or _other_sizes(given, wanted)
    return found


def _other_sizes(given: Shapes, wanted: Shapes) -> Misfit | None:
    shared = [name for name in wanted if name in given]
    if len(shared) < max(HALF * len(wanted), 1) or any(
        given[name] == wanted[name] for name in shared
    ):
        return None
    sizes = [shape_text(each[shared[0]]) for each in (given, wanted)]
    reason = f"{shared[0]} is {sizes[0]} in the file but {sizes[1]} in the module"
    return Misfit(
        reason,
        (shared[0], shared[0]),
        "Build the module with the sizes of the saved one",
        is_certain=False,
    )


def _report(audit: Audit, read: Event, load: Event, found: Misfit) -> Finding | None:
    arrived, wanted = _arrived(load), len(load.detail["own"])
    return silent_finding(
        audit,
        "checkpoint/not-loaded",
        spot=spot_at(load.site),
        symptom=spot_at(read.site),
        step=load.step,
        op="load_state_dict",
        severity=Severity.ERROR if found.is_certain else Severity.WARNING,
        verdict=f"{'nothing' if not arrived else f'only {arrived} of {wanted} tensors'} of the "
        f"checkpoint was loaded: {found.reason}",
        what="load_state_dict received "
        f"{'the weights of the module itself' if load.detail['aliased'] else 'almost nothing'}, "
        f"without {found.example[0]!r} from the file",
        why="The program dropped all keys that do not match before load_state_dict could raise. "
        "The weights keep their initial values.",
        fix=f"{found.fix} before keys are dropped. Check how many tensors remain.",
    )


def _copied_after(
    audit: Audit, read: Event, later: list[Event], taken: list[Event]
) -> Finding | None:
    """Report a file that was read without any of its tensors in a module when training begins."""
    if not later or later[0].kind is not Kind.BEGUN:
        return None
    begun = later[0]
    states = read.detail["states"]
    trained = [own for own in begun.detail["trained"] if own]
    everywhere = [*trained, *begun.detail["others"]]
    if any(_shares(state, own) for state in states for own in everywhere):
        return None
    if all(each.kind is not Kind.LOAD for each in later):
        left = next((each for each in taken if _fits_module(states, each)), None)
        if left is not None or any(_fits(state, own) for state in states for own in trained):
            return _report_unloaded(audit, read, begun, left)
    found = [
        each for own in trained if (each := misfit_of(states, own)) is not None and each.is_certain
    ]
    if not found:
        return None
    return silent_finding(
        audit,
        "checkpoint/not-loaded",
        spot=spot_at(read.site),
        symptom=spot_at(begun.site),
        step=begun.step,
        op="load",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="nothing of the checkpoint is in the model when training begins: "
        f"{found[0].reason}",
        what=f"{found[0].example[0]!r} in the file is {found[0].example[1]!r} in the model, with "
        "other values",
        why="A file with weights was read, but no module has any of its tensors: the keys were "
        "probably looked up by name and not found.",
        fix=f"{found[0].fix} before the weights are copied.",
    )


def _fits_module(states: list[Contents], taken: Event) -> bool:
    """Whether the module whose state was taken has the keys and sizes of the file."""
    module = taken.subject() if taken.subject is not None else None
    own = contents_of(tensors_of(module)) if isinstance(module, nn.Module) else {}
    return bool(own) and any(_fits(state, own) for state in states)


def _fits(state: Contents, own: Contents) -> bool:
    """Whether most keys of either match the other, by name and size."""
    same = sum(name in own and own[name].shape == piece.shape for name, piece in state.items())
    return same > HALF * max(len(state), len(own))


def _report_unloaded(
    audit: Audit, read: Event, begun: Event, taken: Event | None
) -> Finding | None:
    """Report keys that match although no load_state_dict is called and no module has the values."""
    return silent_finding(
        audit,
        "checkpoint/not-loaded",
        spot=spot_at(taken.site if taken is not None else read.site),
        symptom=spot_at(begun.site),
        step=begun.step,
        op="state_dict" if taken is not None else "load",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="nothing of the checkpoint is in the model when training begins: load_state_dict "
        "is never called",
        what="training begins with weights that are not those of the file",
        why="state_dict() returns a new dict. Changes to it reach the module only through "
        "load_state_dict."
        if taken is not None
        else "The file has the keys and sizes of the model, but reading it changes no module.",
        fix="Call the module's load_state_dict with it before training begins.",
    )


def _shares(state: Contents, own: Contents) -> bool:
    return any(piece.is_like(mine) for piece in state.values() for mine in own.values())
