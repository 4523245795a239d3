"""Weights that are averaged with, restored from or mixed with their own memory."""

from __future__ import annotations

import ast

from whence.finding import Finding
from whence.ledgers.audit import Audit
from whence.rules.optimizer.copying import deep_copied, definition_of
from whence.rules.optimizer.targets import trained_memory
from whence.rules.telling import silent_finding
from whence.source.edits import diff_of, insert_after
from whence.source.sites import Site
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name
from whence.tape.tape import Call, Value

MOST_CALLS = 2_000
FOLLOWS = frozenset({"add_", "lerp_", "copy_", "__iadd__"})
ALIASES = frozenset({"data.__get__", "detach"})


def average_of_itself(audit: Audit) -> Finding | None:
    """Report a moving average that shares memory with the weights it should follow."""
    trained = trained_memory(audit)
    for call in audit.tape.calls:
        if (
            call.name not in FOLLOWS
            or call.phase == "optimizer"
            or call.inner
            or len(call.operands) < 2
        ):
            continue
        follower, weight = call.operands[:2]
        if (
            follower.storage not in trained
            or follower.storage != weight.storage
            or follower.shape != weight.shape
        ):
            continue
        if follower.tensor is weight.tensor:
            continue
        made = _made(follower)
        if made is None or made.site is None or made.step >= call.step or call.site is None:
            continue
        name = next(
            (
                audit.modules.name_of(each.tensor)
                for each in (weight, *made.operands)
                if each.tensor is not None
            ),
            "",
        )
        return silent_finding(
            audit,
            "optimizer/aliased-weights",
            spot=Spot.of_site(made.site),
            symptom=Spot.of_site(call.site),
            step=call.step,
            call=made,
            verdict=f"the average of {name or 'a weight'} shares its memory: it is the trained "
            "weight itself",
            what=f"{call.name} at step {call.step} moves it towards its own memory, kept since "
            f"step {made.step}",
            why="A parameter's .data, detach() and state_dict() share its memory. Writing to the "
            "average writes to the trained weights, so the two are always equal.",
            fix="Keep a copy: .clone().",
            patch=_with_clone(made.site),
        )
    return None


def restored_from_itself(audit: Audit) -> Finding | None:
    """Report weights that were set aside without a copy, overwritten, and then written back."""
    trained = trained_memory(audit)
    written: dict[int, int] = {}
    for call in audit.tape.calls:
        is_restored = call.name == "copy_" and call.phase != "optimizer" and len(call.operands) > 1
        live, kept = call.operands[:2] if is_restored else (None, None)
        if (
            live is not None
            and kept is not None
            and live.storage in trained
            and live.storage == kept.storage
        ):
            # Writing through such an alias is intended for the weights.
            made = (
                kept.call
                if kept.call is not None and kept.call.name in ALIASES and _is_explicit_copy(call)
                else None
            )
            # Overwritten by the program or by an update.
            changed = made is not None and (
                made.number < written.get(kept.storage, -1) or made.step < call.step
            )
            if (
                made is not None
                and made.site is not None
                and made.site != call.site
                and call.site
                and changed
            ):
                return _report_restored(audit, call, made)
        for each in call.changed:
            written[each.storage] = call.number
    return None


def _is_explicit_copy(call: Call) -> bool:
    """Whether the program itself writes `weight.copy_(kept)`, rather than load_state_dict."""
    node = call.site.node() if call.site is not None else None
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "copy_"
    )


def _report_restored(audit: Audit, call: Call, made: Call) -> Finding | None:
    assert made.site is not None
    name = next(
        (audit.modules.name_of(each.tensor) for each in made.operands if each.tensor is not None),
        "",
    )
    return silent_finding(
        audit,
        "optimizer/aliased-weights",
        spot=Spot.of_site(made.site),
        symptom=Spot.of_site(call.site) if call.site is not None else None,
        step=call.step,
        call=made,
        verdict=f"the kept copy of {name or 'a weight'} is the weight itself: writing it back "
        "restores nothing",
        what="copy_ writes a weight onto its own memory, which has been overwritten since",
        why="A parameter's .data and detach() share its memory. Writing to the weights also "
        "changes the kept values.",
        fix="Keep a copy: .clone().",
        patch=_with_clone(made.site),
    )


def mixed_with_itself(audit: Audit) -> Finding | None:
    """Report `target.copy_(tau * weight + (1 - tau) * target)` where both are the same weight."""
    trained = trained_memory(audit)
    for call in audit.tape.calls:
        if (
            call.name != "copy_"
            or call.phase == "optimizer"
            or call.site is None
            or len(call.operands) < 2
        ):
            continue
        follower, mixture = call.operands[:2]
        if follower.storage not in trained or _shares(mixture, follower.storage) != 1:
            continue
        owner = _looped_over(call.site)
        spot = definition_of(owner, *call.stack) if owner is not None else None
        name = f"`{ast.unparse(owner)}`" if owner is not None else "the target"
        return silent_finding(
            audit,
            "optimizer/aliased-weights",
            spot=spot or Spot.of_site(call.site),
            symptom=Spot.of_site(call.site),
            step=call.step,
            call=call,
            verdict=f"{name} shares the trained weights: it is mixed with itself",
            what="copy_ writes a weight's own values to it",
            why="Assigning a module gives the same object another name. The target then changes "
            "with every step.",
            fix="Create a copy: copy.deepcopy(model).",
            patch=deep_copied(spot),
        )
    return None


def _shares(mixture: Value, storage: int) -> float | None:
    """The total share of one storage in a weighted sum; None if the sum has other terms."""
    whole = mixture.call
    if (
        whole is None
        or whole.name not in ("add", "__add__", "__radd__")
        or len(whole.operands) != 2
    ):
        return None
    shares = [_share(each, storage) for each in whole.operands]
    return (
        round(sum(each for each in shares if each is not None), 6) if None not in shares else None
    )


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
    """`target` in `for a, b in zip(model.parameters(), target.parameters()): b.data.copy_(...)`."""
    node = site.node()
    written = (
        {each.id for each in ast.walk(node.func) if isinstance(each, ast.Name)}
        if isinstance(node, ast.Call)
        else set()
    )
    loop = enclosing(node, ast.For) if node is not None else None
    if (
        not isinstance(loop, ast.For)
        or not isinstance(loop.target, ast.Tuple)
        or not isinstance(loop.iter, ast.Call)
    ):
        return None
    for name, given in zip(loop.target.elts, loop.iter.args, strict=False):
        if isinstance(name, ast.Name) and name.id in written and isinstance(given, ast.Call):
            return given.func.value if isinstance(given.func, ast.Attribute) else None
    return None


def _made(value: Value) -> Call | None:
    """The call that made a tensor share memory, before all in-place writes to it."""
    call = value.call
    for _ in range(MOST_CALLS):
        if call is None or call.forgotten or not call.changed:
            break
        call = next((each.call for each in call.operands if each.storage == value.storage), None)
    return call if call is not None and call.name in ALIASES else None


def _with_clone(site: Site) -> str | None:
    node = site.node()
    if isinstance(node, ast.Call) and last_name(node.func) == "state_dict":
        return deep_copied(Spot.of_site(site))
    return diff_of(insert_after(site.filename, node, ".clone()")) if node is not None else None
