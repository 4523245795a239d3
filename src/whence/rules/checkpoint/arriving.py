"""Weights that were read from a file and never came to the module that they are meant for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from torch import nn

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.contents import Contents, contents_of, tensors_of
from whence.ledgers.loop import Event, Kind
from whence.rules.checkpoint.fitting import HALF, Shapes, surplus
from whence.rules.telling import shape_text, spot_at, tell_silent


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a name filter takes nothing of a file."""

    reason: str
    example: tuple[str, str]
    """A name in the file and one of the module's."""
    fix: str
    is_certain: bool = True


def nothing_arrived(audit: Audit) -> Finding | None:
    """A state was loaded just after a file was read, and it was the module's own, or next to nothing."""
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
                return _tell(audit, read, load, found)
    return None


def _arrived(load: Event) -> int:
    """How many tensors a module got that were not its own."""
    detail = load.detail
    return 0 if detail["aliased"] else max(detail["given"] - len(detail["unexpected"]), 0)


def misfit_of(states: list[Contents], own: Contents) -> Misfit | None:
    """Why a file that is meant for a module does not fit it; None if it does, or if what would fit has arrived all the same."""
    wanted = {name: piece.shape for name, piece in own.items()}
    found = None
    for state in states:
        given = {name: piece.shape for name, piece in state.items()}
        if any(
            piece.is_like(mine)
            for name, piece in state.items()
            if (mine := own.get(name)) is not None
        ):
            # Part of it came under its own name: what was left out was left out by it.
            return None
        for longer, shorter, is_files in ((given, wanted, True), (wanted, given, False)):
            piece = surplus(longer, shorter)
            if piece is None:
                continue
            pairs = [pair if is_files else pair[::-1] for pair in piece.pairs(longer, shorter)]
            if any(state[one].is_like(own[other]) for one, other in pairs):
                return None
            where = f"{'begin with' if piece.leads else 'have'} {piece.piece!r}"
            if is_files:
                reason, fix = (
                    f"the names in the file {where}",
                    f"take {piece.piece!r} off the names in the file",
                )
            else:
                reason, fix = (
                    f"the module's names {where}",
                    f"put {piece.piece!r} into the names of the file",
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
    sizes = " and ".join(shape_text(each[shared[0]]) for each in (given, wanted))
    reason = f"the sizes differ, {shared[0]} is {sizes}"
    return Misfit(
        reason,
        (shared[0], shared[0]),
        "build the module as the one that was saved",
        is_certain=False,
    )


def _tell(audit: Audit, read: Event, load: Event, found: Misfit) -> Finding | None:
    arrived, wanted = _arrived(load), len(load.detail["own"])
    return tell_silent(
        audit,
        "checkpoint/not-loaded",
        spot=spot_at(load.site),
        symptom=spot_at(read.site),
        step=load.step,
        op="load_state_dict",
        severity=Severity.ERROR if found.is_certain else Severity.WARNING,
        verdict=f"{'nothing' if not arrived else f'only {arrived} of {wanted} tensors'} of the checkpoint was loaded: {found.reason}",
        what=f"load_state_dict was given {'the own weights of the module' if load.detail['aliased'] else 'next to nothing'}: "
        f"{found.example[0]!r} in the file is not in it",
        why="What does not fit was left out before load_state_dict could refuse it; the weights stay as they were initialised.",
        fix=f"Before anything is left out, {found.fix}. Look at how many tensors remain.",
    )


def _copied_after(
    audit: Audit, read: Event, later: list[Event], taken: list[Event]
) -> Finding | None:
    """Nothing was loaded, as a program does that copies what it finds by name; and nothing of it is there when training begins."""
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
            return _tell_left(audit, read, begun, left)
    found = [
        each for own in trained if (each := misfit_of(states, own)) is not None and each.is_certain
    ]
    if not found:
        return None
    return tell_silent(
        audit,
        "checkpoint/not-loaded",
        spot=spot_at(read.site),
        symptom=spot_at(begun.site),
        step=begun.step,
        op="load",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict=f"nothing of the checkpoint is in the model when training begins: {found[0].reason}",
        what=f"{found[0].example[0]!r} in the file is {found[0].example[1]!r} in the model, and has other values",
        why="A file with weights was read, and no module has any of its tensors: what is looked up by name was not found.",
        fix=f"Before the weights are copied, {found[0].fix}.",
    )


def _fits_module(states: list[Contents], taken: Event) -> bool:
    """Whether the state that was asked of a module has the names and sizes of the file's."""
    module = taken.subject() if taken.subject is not None else None
    own = contents_of(tensors_of(module)) if isinstance(module, nn.Module) else {}
    return bool(own) and any(_fits(state, own) for state in states)


def _fits(state: Contents, own: Contents) -> bool:
    """Most of either has its like, by name and size, in the other."""
    same = sum(name in own and own[name].shape == piece.shape for name, piece in state.items())
    return same > HALF * max(len(state), len(own))


def _tell_left(audit: Audit, read: Event, begun: Event, taken: Event | None) -> Finding | None:
    """The names fit, no load_state_dict is called, and no module has the numbers."""
    return tell_silent(
        audit,
        "checkpoint/not-loaded",
        spot=spot_at(taken.site if taken is not None else read.site),
        symptom=spot_at(begun.site),
        step=begun.step,
        op="state_dict" if taken is not None else "load",
        severity=Severity.WARNING,
        confidence=Confidence.LIKELY,
        verdict="nothing of the checkpoint is in the model when training begins: load_state_dict is never called",
        what="training begins with other weights than those of the file",
        why="state_dict() gives a dict of its own: what is put into it comes to the module only by load_state_dict."
        if taken is not None
        else "The file's names and sizes are those of the model. Reading it changes no module.",
        fix="Call load_state_dict of the module with it, before training begins.",
    )


def _shares(state: Contents, own: Contents) -> bool:
    return any(piece.is_like(mine) for piece in state.values() for mine in own.values())
