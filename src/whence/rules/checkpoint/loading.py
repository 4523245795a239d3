"""Weights of a checkpoint that did not reach the model."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from whence.finding import Confidence, Finding
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.rules.checkpoint.arriving import not_arrived
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding
from whence.source.blocks import block_of, dotted
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import text_of

ENOUGH = 3
STATES, MODELS = "the checkpoint's", "the model's"
OTHER = {STATES: "model's", MODELS: "checkpoint's"}


@audit_rule("checkpoint/not-loaded", Rank.CAUSE)
def not_loaded(audit: Audit) -> Finding | None:
    """Weights were not loaded.

    What happened
        load_state_dict(..., strict=False) received a state whose keys do not match the model's:
        most weights keep their initial values. Often a prefix is the reason: "module." from
        DataParallel, "_orig_mod." from torch.compile, "model." from Lightning. Or the program
        selects matching keys, and none match. Or load_state_dict raises: because of a prefix, a
        whole checkpoint instead of one part, layers of another size or name. Or everything is
        loaded, and the model is rebuilt afterwards.
    Why it matters
        The program continues with random weights and prints nothing; or it ends with a list of
        keys, but not the reason.
    How it is detected
        The result of load_state_dict has missing and unexpected keys, for most of the model. Or a
        file was read just before, load_state_dict receives the module's own memory or almost
        nothing, and the file's keys would match except for a prefix (or match, and no size does);
        or the program copies the values itself, and no module has any of them when training begins.
        Where it raises, keys and shapes of the state are compared with those of the model.
    How to fix it
        Remove the prefix from the keys; keep strict=True unless missing keys are intended.
    When it stays silent
        For a new head: few keys are missing, most weights are loaded. For files whose weights a
        module has, or a pass uses. For an error that the program recovers from, or a checkpoint of
        other sizes that it expects (it catches the exception).
    Cost
        A check of the result of each load_state_dict, and of a few values of each tensor in a file
        that is read.
    """
    return _keys_ignored(audit) or _rebuilt_after_load(audit) or not_arrived(audit)


def _rebuilt_after_load(audit: Audit) -> Finding | None:
    """Report a model that is rebuilt under the same name after its weights were loaded."""
    for event in audit.loop.of(Kind.LOAD):
        is_gone = event.subject is not None and event.subject() is None
        went_on = sum(each.steps for each in audit.built) - event.detail["steps"]
        rebuilt = (
            _reassigned(event.site)
            if event.site is not None and is_gone and went_on >= ENOUGH
            else None
        )
        if event.site is None or rebuilt is None:
            continue
        name, other = rebuilt
        return silent_finding(
            audit,
            "checkpoint/not-loaded",
            spot=Spot.of_site(event.site),
            symptom=Spot.of_node(event.site.filename, other),
            step=event.step,
            op="load_state_dict",
            confidence=Confidence.LIKELY,
            verdict=f"the loaded weights are lost: `{name}` is rebuilt before anything uses them",
            what="a new model with its initial weights",
            why="A state is loaded into one module object. Another object that is assigned to "
            "the same name has its own weights.",
            fix="Build the model first and load the weights afterwards; or change only the part "
            "that should differ.",
        )
    return None


def _reassigned(site: Site) -> tuple[str, ast.expr] | None:
    """The model's name and its new value later in the block, if unused in between."""
    node, statement = site.node(), site.statement()
    called = node.func if isinstance(node, ast.Call) else None
    name = dotted(called.value) if isinstance(called, ast.Attribute) else None
    block = block_of(statement) if statement is not None else []
    for later in block[block.index(statement) + 1 :] if statement in block else ():
        match later:
            case ast.Assign(targets=[target], value=ast.Call() as value) if (
                ast.unparse(target) == name
            ):
                return (name, value) if not _uses(value, name) else None
        if name is None or _uses(later, name):
            return None
    return None


def _uses(node: ast.AST, name: str) -> bool:
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name | ast.Attribute))
    return any(ast.unparse(each) == name for each in names)


def _keys_ignored(audit: Audit) -> Finding | None:
    """Report keys that do not match and are ignored because of strict=False."""
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
        return silent_finding(
            audit,
            "checkpoint/not-loaded",
            spot=Spot.of_site(event.site),
            step=event.step,
            op="load_state_dict",
            verdict=f"{_meant(missing, unexpected, prefix)} weights were not loaded: "
            + (
                f"{prefix[1]} keys start with {prefix[0]!r}, the {OTHER[prefix[1]]} do not"
                if prefix is not None
                else "their keys differ"
            ),
            what=f"missing {missing[0]!r}, unexpected {unexpected[0]!r}; {max(loaded, 0)} of "
            f"{event.detail['weights']} weights were loaded",
            why="With strict=False, keys that do not match are ignored. The weights keep their "
            "initial values.",
            fix=(
                f"Remove {prefix[0]!r} from the keys before loading."
                if prefix is not None and prefix[1] == STATES
                else "Rename the keys before loading."
            )
            + " Check the result of load_state_dict, or load with strict=True.",
            patch=_patch(event.site, prefix),
        )
    return None


def _meant(
    missing: Sequence[str], unexpected: Sequence[str], prefix: tuple[str, str] | None
) -> int:
    """How many weights the state has under another key: a new head is not among them."""
    if prefix is None:
        return len(missing)
    known = {name.removeprefix(prefix[0]) for name in unexpected}
    return sum(name.removeprefix(prefix[0]) in known for name in missing)


def _prefix(missing: Sequence[str], unexpected: Sequence[str]) -> tuple[str, str] | None:
    """The prefix, such as `module.`, and the side that has it."""
    for name in unexpected:
        for wanted in missing:
            if name.endswith("." + wanted):
                return name[: -len(wanted)], STATES
    for wanted in missing:
        for name in unexpected:
            if wanted.endswith("." + name):
                return wanted[: -len(name)], MODELS
    return None


def _patch(site: Site, prefix: tuple[str, str] | None) -> str | None:
    node = site.node()
    if prefix is None or prefix[1] != STATES or not isinstance(node, ast.Call) or not node.args:
        return None
    given = node.args[0]
    text = text_of(site.filename, given)
    start = prefix[0]
    renamed = (
        f"{{k.removeprefix({start!r}): v for k, v in {text}.items() if k.startswith({start!r})}}"
    )
    return diff_of(replace_node(site.filename, given, renamed))
