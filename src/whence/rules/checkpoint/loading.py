"""Weights that were to be loaded."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from whence.finding import Confidence, Finding
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.checkpoint.arriving import nothing_arrived
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import tell_silent
from whence.source.blocks import block_of, dotted
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of

ENOUGH = 3


@audit_rule("checkpoint/not-loaded", Rank.CAUSE)
def not_loaded(audit: Audit) -> Finding | None:
    """Weights were not loaded.

    What happened
        load_state_dict(..., strict=False) was given a state whose names do not fit the model's: most weights stay as they were
        initialised. Often a prefix is the reason: "module." from DataParallel, "_orig_mod." from torch.compile, "model." from Lightning.
        Or the program takes what fits by name, and nothing does. Or load_state_dict raises: over a prefix, a whole checkpoint instead of
        its part, layers of another size or name. Or all is loaded, and the model is built anew after that.
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
    return _names_passed_over(audit) or _thrown_away(audit) or nothing_arrived(audit)


def _thrown_away(audit: Audit) -> Finding | None:
    """The weights are loaded, and then the same name is given to another model."""
    for event in audit.loop.of(Kind.LOAD):
        is_gone = event.subject is not None and event.subject() is None
        went_on = sum(each.steps for each in audit.built) - event.detail["steps"]
        rebuilt = (
            _given_anew(event.site)
            if event.site is not None and is_gone and went_on >= ENOUGH
            else None
        )
        if event.site is None or rebuilt is None:
            continue
        name, other = rebuilt
        return tell_silent(
            audit,
            "checkpoint/not-loaded",
            spot=Spot.of_site(event.site),
            symptom=Spot.of_node(event.site.filename, other),
            step=event.step,
            op="load_state_dict",
            confidence=Confidence.LIKELY,
            verdict=f"the weights that are loaded are thrown away: {name} is built anew before anything uses them",
            what="a new model, with weights as they are initialised",
            why="A state is loaded into one module; another one that gets its name has weights of its own.",
            fix="Build the model first, and load after that; or change the part that is to differ.",
        )
    return None


def _given_anew(site: Site) -> tuple[str, ast.expr] | None:
    """The name of a model, and what it becomes in a later statement of the same block, if nothing asks for it in between."""
    node, statement = site.node(), site.statement()
    called = node.func if isinstance(node, ast.Call) else None
    name = dotted(called.value) if isinstance(called, ast.Attribute) else None
    block = block_of(statement) if statement is not None else []
    for later in block[block.index(statement) + 1 :] if statement in block else ():
        match later:
            case ast.Assign(targets=[target], value=ast.Call() as value) if (
                ast.unparse(target) == name
            ):
                return (name, value) if not _asks_for(value, name) else None
        if name is None or _asks_for(later, name):
            return None
    return None


def _asks_for(node: ast.AST, name: str) -> bool:
    asking = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return any(ast.unparse(each) == name for each in asking)


def _names_passed_over(audit: Audit) -> Finding | None:
    """With strict=False the names that do not fit are passed over."""
    for event in audit.loop.of(Kind.LOAD):
        missing, unexpected = event.detail["missing"], event.detail["unexpected"]
        loaded = event.detail["given"] - len(unexpected)
        if (
            not missing
            or not unexpected
            or loaded > 0.5 * event.detail["weights"]
            or event.site is None
        ):
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
            + (
                f": take {prefix[0]!r} off."
                if prefix is not None and prefix[1] == "all begin with"
                else "."
            )
            + " Look at what load_state_dict returns, or load with strict=True.",
            patch=_patch(event.site, prefix),
        )
    return None


def _meant(
    missing: Sequence[str], unexpected: Sequence[str], prefix: tuple[str, str] | None
) -> int:
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
    if (
        prefix is None
        or prefix[1] != "all begin with"
        or not isinstance(node, ast.Call)
        or not node.args
    ):
        return None
    given = node.args[0]
    text = text_of(site.filename, given)
    start = prefix[0]
    renamed = (
        f"{{k.removeprefix({start!r}): v for k, v in {text}.items() if k.startswith({start!r})}}"
    )
    return diff_of(replace_node(site.filename, given, renamed))
