"""Weights and states that were to be loaded."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from whence.finding import Confidence, Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.rules.checkpoint.arriving import nothing_arrived
from whence.rules.checkpoint.edits import loaded_as_well
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import spot_at, tell_silent
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of


@audit_rule("checkpoint/not-loaded", Rank.CAUSE)
def not_loaded(audit: Audit) -> Finding | None:
    """Weights were not loaded.

    What happened
        load_state_dict(..., strict=False) was given a state whose names do not fit the model's: most weights stay as they were
        initialised. Often a prefix is the reason: "module." from DataParallel, "_orig_mod." from torch.compile, "model." from Lightning.
        Or the program takes what fits by name, and nothing does. Or load_state_dict raises: over a prefix, a whole checkpoint instead of
        its part, layers of another size or name.
    Why it matters
        The program goes on with random weights and says nothing; or it ends with a list of names and not the reason.
    How it is detected
        What load_state_dict returned: missing names on one side, unexpected ones on the other, most of the model among them. A file was
        read just before, load_state_dict is given the module's own memory or next to nothing, and the file's names would fit but for a
        piece of them (or fit, and no size does); or the program copies by itself, and nothing of the file is in any module when training
        begins. Where it raises, names and shapes of the state against those of the model.
    How to fix it
        Take the prefix off the names; keep strict=True where nothing is meant to be missing.
    When it stays silent
        A new head: few names missing, most weights loaded. Files whose weights a module has, or a pass uses. A failure that the program
        makes up for, or a checkpoint of other sizes that it expects (it catches the exception).
    Cost
        A look at the result of each load_state_dict, and at a few numbers of each tensor in a file that is read.
    """
    return _names_passed_over(audit) or nothing_arrived(audit)


def _names_passed_over(audit: Audit) -> Finding | None:
    """With strict=False the names that do not fit are passed over."""
    for event in audit.loop.of(Kind.LOAD):
        missing, unexpected = event.detail["missing"], event.detail["unexpected"]
        loaded = event.detail["given"] - len(unexpected)
        if not missing or not unexpected or loaded > 0.5 * event.detail["weights"] or event.site is None:
            continue
        prefix = _prefix(missing, unexpected)
        return tell_silent(
            audit,
            "checkpoint/not-loaded",
            spot=Spot.of_site(event.site),
            step=event.step,
            op="load_state_dict",
            verdict=f"{_meant(missing, unexpected, prefix)} weights were not loaded: the names do not fit"
            + (f", {prefix[1]} {prefix[0]!r}" if prefix is not None else ""),
            what=f"missing {missing[0]!r}, unexpected {unexpected[0]!r}; {max(loaded, 0)} of {event.detail['weights']} weights were loaded",
            why="With strict=False names that do not fit are passed over; the weights stay as they were initialised.",
            fix="Change the names before loading"
            + (f": take {prefix[0]!r} off." if prefix is not None and prefix[1] == "all begin with" else ".")
            + " Look at what load_state_dict returns, or load with strict=True.",
            patch=_patch(event.site, prefix),
        )
    return None


def _meant(missing: Sequence[str], unexpected: Sequence[str], prefix: tuple[str, str] | None) -> int:
    """How many weights the state has for the model under another name: a new head is not among them."""
    if prefix is None:
        return len(missing)
    known = {name.removeprefix(prefix[0]) for name in unexpected}
    return sum(name.removeprefix(prefix[0]) in known for name in missing)


def _prefix(missing: Sequence[str], unexpected: Sequence[str]) -> tuple[str, str] | None:
    """What stands before the names on one side: `module.`, and on which."""
    for name in unexpected:
        for wanted in missing:
            if name.endswith("." + wanted):
                return name[: -len(wanted)], "all begin with"
    for wanted in missing:
        for name in unexpected:
            if wanted.endswith("." + name):
                return wanted[: -len(name)], "the model's begin with"
    return None


def _patch(site: Site, prefix: tuple[str, str] | None) -> str | None:
    node = site.node()
    if prefix is None or prefix[1] != "all begin with" or not isinstance(node, ast.Call) or not node.args:
        return None
    given = node.args[0]
    text = text_of(site.filename, given)
    start = prefix[0]
    renamed = f"{{k.removeprefix({start!r}): v for k, v in {text}.items() if k.startswith({start!r})}}"
    return diff_of(replace_node(site.filename, given, renamed))


@audit_rule("checkpoint/incomplete-resume", Rank.CALL)
def incomplete_resume(audit: Audit) -> Finding | None:
    """A resumed run lost part of its state.

    What happened
        A checkpoint has the model's weights, the optimizer's state and the epoch; the weights were loaded and the epoch is taken up, the
        optimizer's state is not, or that of its schedule. Or it is refused: the optimizer was built with other groups than the one that
        was saved.
    Why it matters
        Adam begins anew with empty moments: the first steps after the resume are large and badly estimated, and the loss jumps.
    How it is detected
        A file that was read has an optimizer's state and an epoch or step in it, a model loaded its weights, and an optimizer with state
        goes on stepping without having loaded anything; or the same schedule as in the file begins at 0 after the optimizer has its
        state back. Where load_state_dict raises, the groups of the state against the optimizer's.
    How to fix it
        optimizer.load_state_dict(checkpoint["optimizer"]), and the scheduler's and the scaler's likewise.
    When it stays silent
        Files of weights alone, fine-tuning from them, optimizers that have no state, schedules with other settings than the saved one;
        programs that catch the refusal and begin anew.
    Cost
        A look at what torch.load gives.
    """
    events = list(audit.loop.events)
    for number, event in enumerate(events):
        if event.kind is not Kind.READ or not event.detail["optimizer"] or not event.detail["progress"]:
            continue
        later = events[number + 1 :]
        load = next((each for each in later if each.kind is Kind.LOAD), None)
        if load is None or load.site is None or load.detail["missing"] or load.detail["unexpected"]:
            # Part of the weights: fine-tuning, not a resume.
            continue
        if any(each.kind is Kind.RESTORE for each in later):
            continue
        after = sum(entry.steps for entry in audit.built) - load.detail["steps"]
        if after < 3 or not any(entry.stateful and entry.steps for entry in audit.built):
            continue
        return tell_silent(
            audit,
            "checkpoint/incomplete-resume",
            spot=Spot.of_site(load.site),
            symptom=Spot.of_site(event.site) if event.site is not None else None,
            step=load.step,
            op="load_state_dict",
            severity=Severity.WARNING,
            confidence=Confidence.LIKELY,
            verdict=f"the run is resumed without its optimizer's state ({event.detail['optimizer']!r} in the checkpoint is not used)",
            what=f"{after} steps since, with moments that began at zero",
            why="The optimizer's moments and step count belong to the run as the weights do.",
            fix=f"Load it as well: optimizer.load_state_dict(checkpoint[{event.detail['optimizer']!r}]).",
            patch=loaded_as_well(event.stack, load.stack, _where_built(audit, later), event.detail["optimizer"]),
        )
    return _schedule_begun_anew(audit, events)


def _where_built(audit: Audit, later: list[Event]) -> Site | None:
    """The line that builds the optimizer that goes on stepping, if there is only one."""
    stepping = [each.detail["entry"] for each in later if each.kind is Kind.STEP] or audit.built
    sites = {entry.stack[0] for entry in stepping if entry.stateful and entry.steps and entry.stack}
    return next(iter(sites)) if len(sites) == 1 else None


def _schedule_begun_anew(audit: Audit, events: list[Event]) -> Finding | None:
    """The optimizer has its state back, and the same schedule as in the checkpoint counts from its beginning."""
    for number, event in enumerate(events):
        restored = [each for each in events[number + 1 :] if each.kind is Kind.RESTORE and each.site is not None]
        plans = event.detail["schedules"] if event.kind is Kind.READ and restored else []
        for key, plan in plans:
            later = [each for each in audit.schedules.known if each.steps and each.began >= event.step]
            anew = next((each for each in later if _is_anew(each.came_to, plan)), None)
            if anew is None or any(each.came_to.get("last_epoch", 0) > plan["last_epoch"] for each in later):
                continue
            return tell_silent(
                audit,
                "checkpoint/incomplete-resume",
                spot=spot_at(restored[0].site),
                symptom=Spot.of_site(anew.stepped[0]) if anew.stepped else None,
                step=anew.began,
                op="load_state_dict",
                severity=Severity.WARNING,
                confidence=Confidence.LIKELY,
                verdict=f"the run is resumed and its schedule begins anew ({key!r} in the checkpoint is not used)",
                what=f"{anew.kind} counts from 0 again; it had come to {plan['last_epoch']}",
                why=f"A scheduler goes by its own count: it repeats its beginning here, and ends at a rate of {anew.last:g}.",
                fix=f"Load it as well: scheduler.load_state_dict(checkpoint[{key!r}]).",
                patch=loaded_as_well(event.stack, restored[0].stack, anew.built[0] if anew.built else None, key),
            )
    return None


def _is_anew(now: dict[str, int | float], saved: dict[str, int | float]) -> bool:
    """The same settings, and the first step."""
    counts = {"last_epoch", "_step_count"}
    own = {name: each for name, each in saved.items() if name not in counts}
    return now.get("last_epoch") == 1 and all(now.get(name) == each for name, each in own.items())
