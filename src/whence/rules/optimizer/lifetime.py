"""What is kept, replaced or changed over the steps: states, weights, optimizers."""

from __future__ import annotations

import ast

from whence.finding import Finding, Severity
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import tell_silent
from whence.source.definitions import find_attribute, find_definition
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing, function_node, parent_of, text_of, tree_of

ENOUGH = 3


@audit_rule("optimizer/aliased-weights", Rank.CAUSE)
def aliased_weights(audit: Audit) -> Finding | None:
    """A kept "best" state or target network shares memory with the live model.

    What happened
        state_dict() gives the weights themselves, not copies. What was kept as the best state changed with every later step; or two
        names for a network and its target are one and the same network.
    Why it matters
        Restoring the best state restores nothing: the last weights are used. A target network that is the network itself
        makes the target move with every update.
    How it is detected
        load_state_dict is given tensors that are the module's own memory, after steps have changed it, or under another name.
    How to fix it
        copy.deepcopy(model.state_dict()), copy.deepcopy(model).
    When it stays silent
        Copies, states from disk, another module's state.
    Cost
        A comparison of addresses for each load_state_dict.
    """
    for event in audit.loop.of(Kind.LOAD):
        node = event.site.node() if event.site is not None else None
        if not event.detail["aliased"] or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        given = node.args[0] if node.args else None
        if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr == "state_dict":
            found = _one_network(audit, event, node.func.value, given.func.value)
        else:
            found = _kept_alias(audit, event)
        if found is not None:
            return found
    return None


def _one_network(audit: Audit, event: Event, target: ast.expr, source: ast.expr) -> Finding | None:
    """`target.load_state_dict(source.state_dict())`, and both are the same module."""
    assert event.site is not None
    one, other = ast.unparse(target), ast.unparse(source)
    if one == other:
        return None
    return tell_silent(
        audit,
        "optimizer/aliased-weights",
        spot=definition_of(target, event.site) or Spot.of_site(event.site),
        symptom=Spot.of_site(event.site),
        step=event.step,
        op="load_state_dict",
        verdict=f"{one} and {other} are one and the same network",
        what="load_state_dict copies the weights onto themselves",
        why="Assigning a module, and module.to(...), give the same module under another name: both change with every step.",
        fix="Keep a copy: copy.deepcopy(model).",
    )


def _kept_alias(audit: Audit, event: Event) -> Finding | None:
    """A state that was kept some steps ago, and is the module's own memory."""
    assert event.site is not None
    module = event.subject() if event.subject is not None else None
    kept = [
        each
        for each in audit.loop.of(Kind.STATE)
        if each.step < event.step
        and (module is None or each.is_about(module))
        and each.site is not None
        and not _is_copied(each.site)
    ]
    if not kept or kept[-1].site is None:
        return None
    return tell_silent(
        audit,
        "optimizer/aliased-weights",
        spot=Spot.of_site(kept[-1].site),
        symptom=Spot.of_site(event.site),
        step=kept[-1].step,
        op="state_dict",
        verdict="the kept state is the live model itself: loading it restores nothing",
        what=f"load_state_dict at step {event.step} was given the model's own memory, kept since step {kept[-1].step}",
        why="state_dict() gives references to the weights. Every later step changed what was kept.",
        fix="Keep a copy: copy.deepcopy(model.state_dict()), or {k: v.clone() for k, v in model.state_dict().items()}.",
        patch=_cloned(kept[-1].site),
    )


def _is_copied(site: Site) -> bool:
    """Whether what state_dict gave is copied, saved or loaded in the same expression."""
    node: ast.AST | None = site.node()
    while node is not None and not isinstance(node, ast.stmt):
        node = parent_of(node)
        if isinstance(node, ast.Call) and any(
            word in ast.unparse(node.func) for word in ("deepcopy", "save", "load_state_dict")
        ):
            return True
        if isinstance(node, ast.DictComp):
            return any(word in ast.unparse(node.value) for word in ("clone", "copy"))
    return False


def definition_of(node: ast.expr, site: Site) -> Spot | None:
    """Where a variable or an attribute of `self` gets its value."""
    function = function_node(site)
    tree = tree_of(site.filename)
    if isinstance(node, ast.Name) and tree is not None:
        for scope in (function, tree):
            found = find_definition(node.id, scope, None) if scope is not None else None
            if found is not None and found.value is not None:
                return Spot.of_node(site.filename, found.value)
    if isinstance(node, ast.Attribute) and function is not None:
        kind = enclosing(function, ast.ClassDef)
        found = find_attribute(node.attr, kind) if isinstance(kind, ast.ClassDef) else None
        if found is not None and found.value is not None:
            return Spot.of_node(site.filename, found.value)
    return None


def _cloned(site: Site) -> str | None:
    node = site.node()
    if not isinstance(node, ast.Call):
        return None
    text = text_of(site.filename, node)
    return diff_of(replace_node(site.filename, node, f"{{k: v.clone() for k, v in {text}.items()}}"))


@audit_rule("optimizer/recreated", Rank.CALL)
def recreated(audit: Audit) -> Finding | None:
    """The optimizer is rebuilt and its state lost.

    What happened
        The optimizer is built anew in the loop, over the same weights: its moments and step counts begin at zero each time.
    Why it matters
        Adam's first steps are large and badly estimated, momentum never builds up, and a scheduler goes on steering the old optimizer.
    How it is detected
        Several optimizers built at one place over the same weights, with steps and state in between and no other change to
        the weights.
    How to fix it
        Build it once, before the loop.
    When it stays silent
        Optimizers of different phases, of re-initialised weights, of other models; plain SGD, which has no state.
    Cost
        One entry for each optimizer.
    """
    counts: dict[Site, int] = {}
    for entry in audit.built:
        if entry.untouched and entry.stack:
            site = entry.stack[0]
            counts[site] = counts.get(site, 0) + 1
            if counts[site] >= ENOUGH:
                return tell_silent(
                    audit,
                    "optimizer/recreated",
                    spot=Spot.of_site(site),
                    step=audit.step,
                    op=entry.kind,
                    phase="optimizer",
                    severity=Severity.WARNING,
                    verdict=f"{entry.kind} is built anew again and again over the same weights, and loses its state each time",
                    what=f"built {counts[site] + 1} times so far at this line",
                    why="Moments and momentum belong to the optimizer object; a new one begins with none.",
                    fix="Build the optimizer once, before the loop.",
                )
    return None


@audit_rule("optimizer/frozen-moves", Rank.CAUSE)
def frozen_moves(audit: Audit) -> Finding | None:
    """A frozen parameter still changes.

    What happened
        requires_grad is off, and the optimizer still has the weight with an old gradient, or one of zeros: momentum, Adam's moments and
        weight decay go on moving it.
    Why it matters
        The part that was to stay as it is drifts away.
    How it is detected
        Weights without requires_grad that a step has changed.
    How to fix it
        zero_grad(set_to_none=True), or grad = None after freezing, or an optimizer without them.
    When it stays silent
        Weights that other code changes (averages).
    Cost
        A copy of frozen weights that have a gradient, in the first 200 steps and in recorded ones.
    """
    moved = next(audit.loop.of(Kind.MOVED), None)
    if moved is None:
        return None
    names = [each or "a weight" for each in moved.detail["names"]]
    return tell_silent(
        audit,
        "optimizer/frozen-moves",
        spot=Spot.of_site(moved.site) if moved.site is not None else _freezes(audit),
        symptom=Spot.of_site(audit.stack[0]) if audit.stack else None,
        step=moved.step,
        op="step",
        phase="optimizer",
        verdict=f"{len(names)} frozen weights are still changed by the optimizer: {', '.join(names[:2])}",
        what=f"step {moved.step} changed them although requires_grad is False",
        why="Their gradients are still there (old ones or zeros), and momentum, moments and weight decay move every weight that has a gradient.",
        fix="Set their .grad to None after freezing (zero_grad() does so by default), or leave them out of the optimizer.",
    )


def _freezes(audit: Audit) -> Spot | None:
    """The line that freezes weights, where that was not recorded: the first in the files that are running."""
    for filename in dict.fromkeys(frame.f_code.co_filename for frame in audit.frames):
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            match node:
                case (
                    ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[ast.Constant(value=False)])
                    | ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=ast.Constant(value=False))
                ):
                    return Spot.of_node(filename, node)
    return None
