"""The edits of optimizer/schedule: where a scheduler's step belongs, and what it should count."""

from __future__ import annotations

import ast

from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.ledgers.schedules import Schedule
from whence.source.blocks import (
    LOOPS,
    binds,
    block_of,
    bound_by,
    dotted,
    has_in_it,
    is_known_before,
    iterated,
    own_call,
    statements_around,
)
from whence.source.edits import diff_of, replace_node
from whence.source.sites import Site
from whence.source.statements import move_after
from whence.source.text import last_name, parent_of, statement_of

HORIZONS = {"steps_per_epoch": 4, "total_steps": 2}


def after_the_batches(story: Schedule) -> str | None:
    """Move the step after the loop over batches that contains it."""
    site = story.stepped[0] if story.stepped else None
    name, step = _plain_step(site) if site is not None else (None, None)
    if site is None or name is None or step is None or not _is_over_batches(story):
        return None
    loop = next(
        (each for each in reversed(statements_around(step)) if isinstance(each, LOOPS)), None
    )
    if loop is None or binds(loop, name):
        return None
    return diff_of(*move_after(site.filename, _with_its_condition(step, loop), loop))


def after_each_update(audit: Audit, story: Schedule, planned: int) -> str | None:
    """Move the step into the loop over batches, after the optimizer's."""
    site = story.stepped[0] if story.stepped else None
    name, step = _plain_step(site) if site is not None else (None, None)
    ways = {each.stack for each in audit.loop.of(Kind.STEP)}
    if (
        site is None
        or name is None
        or step is None
        or len(ways) != 1
        or not (way := next(iter(ways)))
    ):
        return None
    if planned < story.updates:
        # The scheduler would raise at the last ones.
        return None
    update = way[0].statement()
    loop = (
        next(
            (each for each in reversed(statements_around(update)) if isinstance(each, LOOPS)), None
        )
        if update
        else None
    )
    if (
        update is None
        or loop is None
        or has_in_it(loop, site)
        or binds(loop, name)
        or not _is_known(name, site, way)
    ):
        return None
    return diff_of(*move_after(site.filename, step, update))


def update_after(story: Schedule, way: tuple[Site, ...]) -> ast.stmt | None:
    """The statement with the optimizer's step that follows the scheduler's in one iteration."""
    site = story.stepped[0] if story.stepped else None
    step = site.statement() if site is not None else None
    there = next(
        (each.statement() for each in way if site is not None and each.f_code is site.f_code), None
    )
    if step is None or there is None:
        return None
    behind = next((each for each in statements_around(there) if each in block_of(step)), None)
    is_in_loop = any(isinstance(each, LOOPS) for each in statements_around(step))
    if behind is None or behind.lineno <= step.lineno or not (is_in_loop or behind is there):
        return None
    return behind


def put_after(story: Schedule, other: ast.stmt) -> str | None:
    site = story.stepped[0]
    name, step = _plain_step(site)
    if name is None or step is None or binds(other, name):
        return None
    return diff_of(*move_after(site.filename, step, other))


def counted_in_batches(story: Schedule) -> str | None:
    """`len(dataset)` becomes `len(loader)`, with the loader of the loop around the step."""
    call = story.built[0].node() if story.built else None
    step = story.stepped[0].statement() if story.stepped else None
    loop = (
        next(
            (each for each in reversed(statements_around(step)) if isinstance(each, ast.For)), None
        )
        if step
        else None
    )
    if (
        not isinstance(call, ast.Call)
        or loop is None
        or story.built[0].f_code is not story.stepped[0].f_code
    ):
        return None
    loader = dotted(iterated(loop.iter))
    if loader is None or not story.rounds.loops or story.rounds.loops[-1].loader is None:
        return None
    statement = statement_of(call)
    lengths = [
        each
        for each in ast.walk(call)
        if isinstance(each, ast.Call) and last_name(each.func) == "len"
    ]
    if len(lengths) != 1 or _argument_of(lengths[0], call) not in HORIZONS or statement is None:
        return None
    if not is_known_before(loader, statement):
        return None
    return diff_of(replace_node(story.built[0].filename, lengths[0], f"len({loader})"))


def _plain_step(site: Site) -> tuple[str | None, ast.stmt | None]:
    """`scheduler.step()` as a statement without arguments."""
    statement = site.statement()
    match statement:
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(value=owner, attr="step"), args=[], keywords=[])
        ):
            return dotted(owner), statement
    return None, None


def _is_over_batches(story: Schedule) -> bool:
    """Whether the loop around the step runs once per epoch."""
    if len(story.rounds.loops) < 2:
        return False
    outer, inner = story.rounds.loops[-2:]
    return inner.loader is not None or (outer.count is not None and outer.count == story.epochs)


def _with_its_condition(step: ast.stmt, loop: ast.stmt) -> ast.stmt:
    """Move `if scheduler is not None:` with the step, if it guards nothing else."""
    above = parent_of(step)
    while isinstance(above, ast.If) and above.body == [step] and not above.orelse:
        if {each.id for each in ast.walk(above.test) if isinstance(each, ast.Name)} & bound_by(
            loop
        ):
            break
        step, above = above, parent_of(above)
    return step


def _is_known(name: str, site: Site, way: tuple[Site, ...]) -> bool:
    """Whether the scheduler has the same name where the update happens."""
    depth = next((number for number, each in enumerate(way) if each.f_code is site.f_code), None)
    if depth is None or depth == 0:
        return depth == 0
    return (
        name.count(".") == 1
        and all(own_call(each) for each in way[1 : depth + 1])
        and way[0].filename == site.filename
    )


def _argument_of(node: ast.AST, call: ast.Call) -> str:
    """The name of the call's argument that contains an expression."""
    walker: ast.AST | None = node
    while walker is not None and parent_of(walker) is not call:
        walker = parent_of(walker)
    if isinstance(walker, ast.keyword):
        return walker.arg or ""
    place = next((number for number, each in enumerate(call.args) if each is walker), None)
    return next((name for name, number in HORIZONS.items() if number == place), "")
