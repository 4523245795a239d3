"""Kept weights, such as a best state or a target network, that share memory with the live model."""

from __future__ import annotations

import ast

from whence.finding import Confidence, Finding
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.rules.optimizer.champions import best_is_the_model, is_if_better
from whence.rules.optimizer.copying import NameGiven, deep_copied, definition_of, name_given
from whence.rules.optimizer.itself import average_of_itself, mixed_with_itself, restored_from_itself
from whence.rules.optimizer.targets import (
    gives_targets,
    names_in_training,
    run_without_gradients,
    runs_by_name,
    trained_memory,
)
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import silent_finding, spot_at
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import parent_of, text_of, tree_of
from whence.tape.scopes import Scope, weights_within
from whence.tape.tape import storage_of

SEVERAL = 3


@audit_rule("optimizer/aliased-weights", Rank.CAUSE)
def aliased_weights(audit: Audit) -> Finding | None:
    """A kept "best" state or target network shares memory with the live model.

    What happened
        state_dict() returns the weights themselves, not copies. The kept best state changed with
        every later step; or a network and its target are the same object under two names.
    Why it matters
        Restoring the best state restores nothing: the last weights are used. A target network that
        is the network itself moves with every update.
    How it is detected
        load_state_dict: receives the module's own memory, after steps have changed it or under
        another name. Target networks: a network runs only without gradients, a loss depends on its
        results, and all its weights share memory with trained weights, or it is a copy.copy of the
        trained network. Averages: weights kept in an earlier step are moved towards trained weights
        and share their memory; or a weight is mixed with itself, or restored from its own memory.
        Best states: three states of one module, taken at one line after different steps, exist at
        once; a state taken whenever a score improved is saved later; or the module itself is kept
        under another name.
    How to fix it
        Copy: copy.deepcopy(model.state_dict()), copy.deepcopy(model), p.detach().clone().
    When it stays silent
        For copies, states from disk, another module's state; a second network on the same memory
        that only acts or is evaluated; weights that are decayed, under any name.
    Cost
        A comparison of addresses for each load_state_dict, and for each network that runs without
        gradients.
    """
    for event in audit.loop.of(Kind.LOAD):
        node = event.site.node() if event.site is not None else None
        if (
            not event.detail["aliased"]
            or not isinstance(node, ast.Call)
            or not isinstance(node.func, ast.Attribute)
        ):
            continue
        given = node.args[0] if node.args else None
        if (
            isinstance(given, ast.Call)
            and isinstance(given.func, ast.Attribute)
            and given.func.attr == "state_dict"
        ):
            found = _one_network(audit, event, node.func.value, given.func.value)
        else:
            found = _kept_alias(audit, event)
        if found is not None:
            return found
    return (
        _moving_target(audit)
        or _shallow_copy(audit)
        or _two_names(audit)
        or _states_share_memory(audit)
        or _saved_too_late(audit)
        or best_is_the_model(audit)
        or average_of_itself(audit)
        or restored_from_itself(audit)
        or mixed_with_itself(audit)
    )


def _one_network(audit: Audit, event: Event, target: ast.expr, source: ast.expr) -> Finding | None:
    """Report `target.load_state_dict(source.state_dict())` where both are the same module."""
    assert event.site is not None
    one, other = ast.unparse(target), ast.unparse(source)
    if one == other:
        return None
    spot = definition_of(target, *event.stack)
    return silent_finding(
        audit,
        "optimizer/aliased-weights",
        spot=spot or Spot.of_site(event.site),
        symptom=Spot.of_site(event.site),
        step=event.step,
        op="load_state_dict",
        verdict=f"`{one}` and `{other}` are the same network",
        what="load_state_dict copies the weights onto themselves",
        why="Assigning a module, like module.to(...), gives the same object another name. Both "
        "change with every step.",
        fix="Create a copy: copy.deepcopy(model).",
        patch=deep_copied(spot),
    )


def _kept_alias(audit: Audit, event: Event) -> Finding | None:
    """Report a state kept some steps ago that is the module's own memory."""
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
    return silent_finding(
        audit,
        "optimizer/aliased-weights",
        spot=Spot.of_site(kept[-1].site),
        symptom=Spot.of_site(event.site),
        step=kept[-1].step,
        op="state_dict",
        verdict="the kept state is the live model itself: loading it restores nothing",
        what=f"load_state_dict at step {event.step} received the model's own memory, kept since "
        f"step {kept[-1].step}",
        why="state_dict() returns references to the weights, so every later step changed the "
        "kept state.",
        fix="Keep a copy: copy.deepcopy(model.state_dict()).",
        patch=deep_copied(Spot.of_site(kept[-1].site)),
    )


def _states_share_memory(audit: Audit) -> Finding | None:
    """Report states taken after different updates that all exist at once, to average or compare."""
    for events in audit.loop.states_kept():
        first, last = events[0], events[-1]
        if len(events) < SEVERAL or first.site is None:
            continue
        return silent_finding(
            audit,
            "optimizer/aliased-weights",
            spot=Spot.of_site(first.site),
            step=first.step,
            op="state_dict",
            confidence=Confidence.LIKELY,
            verdict=f"the {len(events)} kept states are all the live model, so they are identical",
            what=f"they were taken after steps {', '.join(str(each.step) for each in events[:3])}"
            + (f" ... {last.step}" if len(events) > SEVERAL else ""),
            why="state_dict() returns references to the weights, so every later step, and every "
            "load, changed all of them.",
            fix="Keep copies: copy.deepcopy(model.state_dict()).",
            patch=deep_copied(Spot.of_site(first.site)),
        )
    return None


def _saved_too_late(audit: Audit) -> Finding | None:
    """Report a best state, taken whenever a score improved, that is saved after more updates."""
    for save in audit.loop.of(Kind.SAVE):
        for taken in save.detail["kept"]:
            times = {each.step for each in audit.loop.of(Kind.STATE) if each.site == taken.site}
            if (
                taken.step >= save.step
                or len(times) < 2
                or taken.site is None
                or not _is_taken_if_better(taken.site)
            ):
                continue
            return silent_finding(
                audit,
                "optimizer/aliased-weights",
                spot=Spot.of_site(taken.site),
                symptom=spot_at(save.site),
                step=taken.step,
                op="state_dict",
                confidence=Confidence.LIKELY,
                verdict="the kept state is the live model itself: the saved weights are the last "
                "ones",
                what=f"the state was taken after step {taken.step} and saved after step "
                f"{save.step}",
                why="state_dict() returns references to the weights, so every later step changed "
                "the kept state.",
                fix="Keep a copy, copy.deepcopy(model.state_dict()), or save the state when it "
                "is taken.",
                patch=deep_copied(Spot.of_site(taken.site)),
            )
    return None


def _is_taken_if_better(site: Site) -> bool:
    statement = site.statement()
    return statement is not None and is_if_better(statement)


def _is_copied(site: Site) -> bool:
    """Whether the state is copied, saved or loaded in the same expression."""
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


def _moving_target(audit: Audit) -> Finding | None:
    """Report a target network that shares memory with the trained one."""
    trained = trained_memory(audit)
    for scope, module, numbers in run_without_gradients(audit):
        weights = list(weights_within(module))
        if not weights or any(
            audit.is_owned(each) or storage_of(each) not in trained for each in weights
        ):
            continue
        if not gives_targets(audit, numbers):
            continue
        name = audit.modules.path_of(module)
        spot = _data_assignment(audit, scope)
        return silent_finding(
            audit,
            "optimizer/aliased-weights",
            spot=spot or Spot.of_site(scope.called_from[0]),
            symptom=Spot.of_site(scope.called_from[0]),
            step=audit.step,
            op="data.__set__" if spot is not None else None,
            verdict=f"{name} shares the memory of trained weights ({len(weights)} tensors): it "
            "moves with every step",
            what="a loss uses its results, which are computed without gradients",
            why="Assigning .data shares the memory. The target network then changes with every "
            "step instead of staying fixed.",
            fix="Copy the values: target.data.copy_(source.data), or "
            "target.load_state_dict(source.state_dict()).",
            patch=_copied(spot),
        )
    return None


def _shallow_copy(audit: Audit) -> Finding | None:
    """Report a target network from `copy.copy(model)`, which has the same layers."""
    for scope, module, numbers in run_without_gradients(audit):
        own = [
            each for each in (vars(module).get("_modules"), vars(module).get("_parameters")) if each
        ]
        twins = [
            each
            for each in audit.modules.roots()
            if each is not module and type(each) is type(module)
        ]
        if not any(one is each for twin in twins for one in vars(twin).values() for each in own):
            continue
        if not all(audit.is_owned(each) for each in weights_within(module)) or not gives_targets(
            audit, numbers
        ):
            continue
        call = scope.called_from[0].node()
        spot = (
            definition_of(call.func, scope.called_from[0]) if isinstance(call, ast.Call) else None
        )
        made = spot.node() if spot is not None else None
        name = "the copy"
        if spot is not None and made is not None:
            name = f"`{text_of(spot.filename, made)}`"
        return silent_finding(
            audit,
            "optimizer/aliased-weights",
            spot=spot or Spot.of_site(scope.called_from[0]),
            symptom=Spot.of_site(scope.called_from[0]),
            step=audit.step,
            verdict=f"{name} shares the trained weights: it moves with every step",
            what="a loss uses its results, which are computed without gradients",
            why="copy.copy creates a new module that holds the same layers. The target network "
            "then changes with every step instead of staying fixed.",
            fix="Copy the weights as well: copy.deepcopy(model).",
            patch=_made_deep(spot),
        )
    return None


def _made_deep(spot: Spot | None) -> str | None:
    """`copy.copy(model)` becomes `copy.deepcopy(model)`."""
    made = spot.node() if spot is not None else None
    if spot is None or not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return None
    module = text_of(spot.filename, made.func.value)
    return (
        diff_of(replace_node(spot.filename, made.func, f"{module}.deepcopy"))
        if made.func.attr == "copy"
        else None
    )


def _two_names(audit: Audit) -> Finding | None:
    """Report `self.target = self.online`: a loss takes its targets from the trained network."""
    trained = names_in_training(audit)
    for scope, module, numbers in runs_by_name(audit):
        call, site = scope.called_from[0].node(), scope.called_from[0]
        given = (
            name_given(call.func, site, trained.get(id(module), set()))
            if isinstance(call, ast.Call)
            else None
        )
        if given is None or not all(audit.is_owned(each) for each in weights_within(module)):
            continue
        if not isinstance(call, ast.Call) or not gives_targets(audit, numbers):
            continue
        one, other = ast.unparse(call.func), ast.unparse(given.value)
        return silent_finding(
            audit,
            "optimizer/aliased-weights",
            spot=Spot.of_node(site.filename, given.value),
            symptom=Spot.of_site(site),
            step=audit.step,
            confidence=Confidence.PROVEN if given.was_another else Confidence.LIKELY,
            verdict=f"`{one}` and `{other}` are the same network: the target moves with every step",
            what="a loss uses its results, which are computed without gradients",
            why="Assigning a module gives it a second name. The target network then changes with "
            "every step instead of staying fixed.",
            fix=f"Copy the weights: {one}.load_state_dict({other}.state_dict()), or "
            f"copy.deepcopy({other}).",
            patch=_weights_copied(site.filename, given),
        )
    return None


def _weights_copied(filename: str, given: NameGiven) -> str | None:
    """Copy the weights into the target network if it has its own, else create a deep copy."""
    if not given.was_another or not isinstance(given.statement, ast.Assign):
        return deep_copied(Spot.of_node(filename, given.value))
    target = text_of(filename, given.statement.targets[0])
    text = f"{target}.load_state_dict({text_of(filename, given.value)}.state_dict())"
    return diff_of(replace_node(filename, given.statement, text))


def _data_assignment(audit: Audit, scope: Scope) -> Spot | None:
    """The line that shares memory, `a.data = b.data`, in files that run the network."""
    files = [
        *(each.filename for each in scope.called_from),
        *(frame.f_code.co_filename for frame in audit.frames),
    ]
    found = [
        Spot.of_node(filename, node)
        for filename in dict.fromkeys(files)
        for node in ast.walk(tree_of(filename) or ast.Module([], []))
        if isinstance(node, ast.Assign)
        and _is_data(node.targets[0])
        and not isinstance(node.value, ast.Call | ast.BinOp)
    ]
    return found[0] if len(found) == 1 else None


def _is_data(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "data"


def _copied(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.Assign):
        return None
    target, value = (text_of(spot.filename, each) for each in (node.targets[0], node.value))
    return diff_of(replace_node(spot.filename, node, f"{target}.copy_({value})"))
