"""Weights that are kept, or held back, and are those that are trained: a best state, a target network."""

from __future__ import annotations

import ast

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind
from whence.lineage.constructors import caller_argument
from whence.rules.optimizer.targets import gives_targets, run_without_gradients
from whence.rules.rule import Rank, audit_rule
from whence.rules.telling import tell_silent
from whence.source.definitions import Definition, definitions_before, find_attribute, find_definition
from whence.source.edits import diff_of, insert_after, replace_node
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.statements import import_of
from whence.source.text import enclosing, function_node, parent_of, text_of, tree_of
from whence.tape.scopes import Scope
from whence.tape.tape import Call, Value, storage_of

MOST_CALLS = 2_000
FOLLOWS = frozenset({"add_", "lerp_", "copy_", "__iadd__"})
ALIASES = frozenset({"data.__get__", "detach"})


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
        load_state_dict is given tensors that are the module's own memory, after steps have changed it, or under another name. Or a
        network that is only run without gradients, and whose results a loss is made from, has all its weights in the memory of those
        that an optimizer trains, or is a copy.copy of the trained one. Or what was kept in an earlier step is moved towards trained weights, and lies in their memory. Or a
        weight is mixed with itself, as a target is with the weights that it follows.
    How to fix it
        copy.deepcopy(model.state_dict()), copy.deepcopy(model), p.detach().clone().
    When it stays silent
        Copies, states from disk, another module's state; a second network on the same memory that only acts or is evaluated; weights
        that are decayed, by whatever name.
    Cost
        A comparison of addresses for each load_state_dict, and for each network that is run without gradients.
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
    return _target_that_moves(audit) or _shallow_copy(audit) or _average_of_itself(audit) or _mixed_with_itself(audit)


def _one_network(audit: Audit, event: Event, target: ast.expr, source: ast.expr) -> Finding | None:
    """`target.load_state_dict(source.state_dict())`, and both are the same module."""
    assert event.site is not None
    one, other = ast.unparse(target), ast.unparse(source)
    if one == other:
        return None
    spot = definition_of(target, *event.stack)
    return tell_silent(
        audit,
        "optimizer/aliased-weights",
        spot=spot or Spot.of_site(event.site),
        symptom=Spot.of_site(event.site),
        step=event.step,
        op="load_state_dict",
        verdict=f"{one} and {other} are one and the same network",
        what="load_state_dict copies the weights onto themselves",
        why="Assigning a module, and module.to(...), give the same module under another name: both change with every step.",
        fix="Keep a copy: copy.deepcopy(model).",
        patch=_deep_copied(spot),
    )


def _deep_copied(spot: Spot | None) -> str | None:
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.expr):
        return None
    text = f"copy.deepcopy({text_of(spot.filename, node)})"
    return diff_of(*import_of(spot.filename, "copy"), replace_node(spot.filename, node, text))


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
        fix="Keep a copy: copy.deepcopy(model.state_dict()).",
        patch=_deep_copied(Spot.of_site(kept[-1].site)),
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


def definition_of(node: ast.expr, *stack: Site) -> Spot | None:
    """Where a variable or an attribute of `self` gets its value; a parameter, where the argument does that a caller gives for it."""
    site = stack[0]
    function = function_node(site)
    tree = tree_of(site.filename)
    if isinstance(node, ast.Name) and tree is not None:
        for scope in (function, tree):
            found = _first_of_its_kind(node.id, scope) if scope is not None else None
            if found is not None and found.value is not None:
                return Spot.of_node(site.filename, found.value)
            if found is not None:
                given = caller_argument(stack, node.id)
                return definition_of(given, *stack[1:]) if given is not None else None
    if isinstance(node, ast.Attribute) and function is not None:
        kind = enclosing(function, ast.ClassDef)
        found = find_attribute(node.attr, kind) if isinstance(kind, ast.ClassDef) else None
        if found is not None and found.value is not None:
            return Spot.of_node(site.filename, found.value)
    return None


def _first_of_its_kind(name: str, scope: ast.AST) -> Definition | None:
    """The last definition of a name but for those that only ask it for itself: `model = model.cuda()` is the same module."""
    found = find_definition(name, scope, None)
    while found is not None and _asks_itself(found.value, name):
        before = next(iter(definitions_before(name, scope, found.node)), None)
        if before is None:
            break
        found = before
    return found


def _asks_itself(value: ast.expr | None, name: str) -> bool:
    match value:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=asked))):
            return asked == name
    return False


def _target_that_moves(audit: Audit) -> Finding | None:
    """A network that a loss takes its targets from, and that lies in the memory of the one that is trained."""
    trained = _trained(audit)
    for scope, module, numbers in run_without_gradients(audit):
        weights = list(module.parameters())
        if not weights or any(audit.is_owned(each) or storage_of(each) not in trained for each in weights):
            continue
        if not gives_targets(audit, numbers):
            continue
        name = audit.modules.path_of(module)
        spot = _data_assignment(audit, scope)
        return tell_silent(
            audit,
            "optimizer/aliased-weights",
            spot=spot or Spot.of_site(scope.called_from[0]),
            symptom=Spot.of_site(scope.called_from[0]),
            step=audit.step,
            op="data.__set__" if spot is not None else None,
            verdict=f"the {len(weights)} weights of {name} share the memory of weights that are trained: it moves with every step",
            what="a loss is made from its results, which are computed without gradients",
            why="To assign a tensor's .data is to share its memory. A target that moves with the network it is the target of holds nothing back.",
            fix="Copy the numbers: target.data.copy_(source.data), or target.load_state_dict(source.state_dict()).",
            patch=_copied(spot),
        )
    return None


def _shallow_copy(audit: Audit) -> Finding | None:
    """`copy.copy(model)`: another module with the very parts of the first, and a loss takes its targets from it."""
    for scope, module, numbers in run_without_gradients(audit):
        own = [each for each in (vars(module).get("_modules"), vars(module).get("_parameters")) if each]
        twins = [each for each in audit.modules.roots() if each is not module and type(each) is type(module)]
        if not any(one is each for twin in twins for one in vars(twin).values() for each in own):
            continue
        if not all(audit.is_owned(each) for each in module.parameters()) or not gives_targets(audit, numbers):
            continue
        call = scope.called_from[0].node()
        spot = definition_of(call.func, scope.called_from[0]) if isinstance(call, ast.Call) else None
        made = spot.node() if spot is not None else None
        return tell_silent(
            audit,
            "optimizer/aliased-weights",
            spot=spot or Spot.of_site(scope.called_from[0]),
            symptom=Spot.of_site(scope.called_from[0]),
            step=audit.step,
            verdict=f"{text_of(spot.filename, made) if spot is not None and made is not None else 'the copy'} has the weights that are "
            "trained: it moves with every step",
            what="a loss is made from its results, which are computed without gradients",
            why="copy.copy gives a new module that holds the same layers. A target that moves with the network it is the target of holds "
            "nothing back.",
            fix="Copy the weights as well: copy.deepcopy(model).",
            patch=_made_deep(spot),
        )
    return None


def _made_deep(spot: Spot | None) -> str | None:
    """`copy.copy(model)` to `copy.deepcopy(model)`."""
    made = spot.node() if spot is not None else None
    if spot is None or not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute):
        return None
    module = text_of(spot.filename, made.func.value)
    return diff_of(replace_node(spot.filename, made.func, f"{module}.deepcopy")) if made.func.attr == "copy" else None


def _trained(audit: Audit) -> set[int]:
    """Where the weights lie that optimizers have."""
    optimizers = [each.optimizer for each in audit.built]
    return {
        storage_of(weight)
        for optimizer in optimizers
        for group in (optimizer.param_groups if optimizer is not None else ())
        for weight in group["params"]
    }


def _average_of_itself(audit: Audit) -> Finding | None:
    """What follows the weights, as a moving average does, and is the weights: kept in an earlier step, and moved towards its own memory."""
    trained = _trained(audit)
    for call in audit.tape.calls:
        if call.name not in FOLLOWS or call.phase == "optimizer" or call.inner or len(call.operands) < 2:
            continue
        follower, weight = call.operands[:2]
        if follower.storage not in trained or follower.storage != weight.storage or follower.shape != weight.shape:
            continue
        if follower.tensor is weight.tensor:
            continue
        made = _made(follower)
        if made is None or made.site is None or made.step >= call.step or call.site is None:
            continue
        name = next(
            (audit.modules.name_of(each.tensor) for each in (weight, *made.operands) if each.tensor is not None), ""
        )
        return tell_silent(
            audit,
            "optimizer/aliased-weights",
            spot=Spot.of_site(made.site),
            symptom=Spot.of_site(call.site),
            step=call.step,
            call=made,
            verdict=f"what is to follow {name or 'a weight'} shares its memory: it is the trained weight itself",
            what=f"{call.name} at step {call.step} moves it towards its own memory, kept since step {made.step}",
            why="A parameter's .data, detach() and state_dict() give its own memory. What is written to the average is written to the "
            "weights that are trained, and the average is never anything else.",
            fix="Keep a copy: .clone().",
            patch=_with_clone(made.site),
        )
    return None


def _mixed_with_itself(audit: Audit) -> Finding | None:
    """`target.copy_(tau * weight + (1 - tau) * target)`, and both are the same trained weight: two names for one network."""
    trained = _trained(audit)
    for call in audit.tape.calls:
        if call.name != "copy_" or call.phase == "optimizer" or call.site is None or len(call.operands) < 2:
            continue
        follower, mixture = call.operands[:2]
        if follower.storage not in trained or _shares(mixture, follower.storage) != 1:
            continue
        owner = _looped_over(call.site)
        spot = definition_of(owner, *call.stack) if owner is not None else None
        name = ast.unparse(owner) if owner is not None else "what is to follow the weights"
        return tell_silent(
            audit,
            "optimizer/aliased-weights",
            spot=spot or Spot.of_site(call.site),
            symptom=Spot.of_site(call.site),
            step=call.step,
            call=call,
            verdict=f"{name} has the weights that are trained: it is mixed with itself",
            what="copy_ writes a weight's own numbers to it",
            why="Assigning a module gives the same module under another name: it moves with every step, and holds nothing back.",
            fix="Keep a copy: copy.deepcopy(model).",
            patch=_deep_copied(spot),
        )
    return None


def _shares(mixture: Value, storage: int) -> float | None:
    """The sum of the shares that a sum takes of the tensors in one memory; None if it has anything else in it, or only one of them."""
    whole = mixture.call
    if whole is None or whole.name not in ("add", "__add__", "__radd__") or len(whole.operands) != 2:
        return None
    shares = [_share(each, storage) for each in whole.operands]
    return round(sum(each for each in shares if each is not None), 6) if None not in shares else None


def _share(value: Value, storage: int) -> float | None:
    call = value.call
    if (
        call is None
        or call.name not in ("mul", "__mul__", "__rmul__")
        or [each.storage for each in call.operands] != [storage]
    ):
        return None
    return next((float(each) for each in call.args if isinstance(each, int | float)), None)


def _looped_over(site: Site) -> ast.expr | None:
    """`target` of `for a, b in zip(model.parameters(), target.parameters())`, where `b.data.copy_(...)` is written."""
    node = site.node()
    written = (
        {each.id for each in ast.walk(node.func) if isinstance(each, ast.Name)} if isinstance(node, ast.Call) else set()
    )
    loop = enclosing(node, ast.For) if node is not None else None
    if not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Tuple) or not isinstance(loop.iter, ast.Call):
        return None
    for name, given in zip(loop.target.elts, loop.iter.args, strict=False):
        if isinstance(name, ast.Name) and name.id in written and isinstance(given, ast.Call):
            return given.func.value if isinstance(given.func, ast.Attribute) else None
    return None


def _made(value: Value) -> Call | None:
    """The call that gave a tensor the memory of another, before all that wrote to it in place."""
    call = value.call
    for _ in range(MOST_CALLS):
        if call is None or call.forgotten or not call.changed:
            break
        call = next((each.call for each in call.operands if each.storage == value.storage), None)
    return call if call is not None and call.name in ALIASES else None


def _with_clone(site: Site) -> str | None:
    node = site.node()
    return diff_of(insert_after(site.filename, node, ".clone()")) if node is not None else None


def _data_assignment(audit: Audit, scope: Scope) -> Spot | None:
    """The line that gives tensors the memory of others, in the files that run the network: `a.data = b.data`."""
    files = [*(each.filename for each in scope.called_from), *(frame.f_code.co_filename for frame in audit.frames)]
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
