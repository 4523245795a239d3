"""The edits of optimizer/wrong-mode: where train() and eval() belong."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torch import nn

from whence.ledgers.audit import Audit
from whence.ledgers.loop import Event, Kind, LoopLedger
from whence.ledgers.study import Study
from whence.lineage.looking import words_for
from whence.source.blocks import (
    LOOPS,
    Stack,
    binds,
    called_at,
    is_run_as_written,
    part_around,
    parting,
)
from whence.source.edits import diff_of
from whence.source.sites import Site
from whence.source.statements import line_after, line_before
from whence.tape.scopes import Scope, parts_of


def back_to_training(study: Study, model: nn.Module, scope: Scope) -> str | None:
    """Insert `model.train()` before the training loop, where no path to eval() passes."""
    switches = list(study.loop.of(Kind.MODE))
    ways = [parting(scope.called_from, each.stack) for each in switches if _is_off(each, model)]
    known = [each for each in ways if each is not None]
    if not known or len(known) < len(ways) or any(_is_part(each, model) for each in switches):
        return None
    depth, apart = min(known, key=lambda each: (each[0], -each[1].lineno))
    for number, statement in _places(scope.called_from, depth, apart):
        site = scope.called_from[number]
        name = next(
            (each for each in _names(study, scope, number) if not binds(statement, each)), None
        )
        if name is not None:
            return diff_of(line_before(site.filename, statement, f"{name}.train()"))
    return None


def _is_off(event: Event, model: nn.Module) -> bool:
    return event.is_about(model) and not event.detail["training"]


def _is_part(event: Event, model: nn.Module) -> bool:
    """Whether a part of the model was switched separately: train() might undo that."""
    part = event.subject() if event.subject is not None else None
    return part is not model and any(each is part for each in parts_of(model))


def _places(way: Stack, depth: int, apart: ast.stmt) -> Iterator[tuple[int, ast.stmt]]:
    """Places to switch the mode on the path to training, best first: a loop that only trains."""
    inner = [number for number in range(depth) if is_run_as_written(way, number)]
    own = [(number, part) for number in inner if (part := part_around(way[number])) is not None]
    yield from (
        (number, part)
        for number, part in own
        if any(isinstance(each, LOOPS) for each in ast.walk(part))
    )
    yield depth, apart
    yield from own[:1]


def _names(study: Study, scope: Scope, number: int) -> Iterator[str]:
    site, model = scope.called_from[number], scope.module
    if number == 0 and scope.is_called_directly and (name := called_at(site)) is not None:
        yield name
    for frame in study.frames:
        if frame.f_code is site.f_code:
            yield from words_for(model, frame)


def into_evaluation(audit: Audit, scope: Scope) -> str | None:
    """Insert `model.eval()` before the evaluation, and `model.train()` after it where needed."""
    site, model = scope.called_from[0], scope.module
    name = called_at(site) if scope.is_called_directly else None
    if name is None or model is None or _belongs_to_another(audit, model):
        return None
    if not is_run_as_written(scope.called_from, 0):
        return None
    part = part_around(site, name, training_sites(audit.loop))
    if part is None:
        return None
    before = line_before(site.filename, part, f"{name}.eval()")
    if _switches_back(audit.loop, model):
        return diff_of(before)
    leaves = any(
        isinstance(each, ast.Return | ast.Yield | ast.YieldFrom) for each in ast.walk(part)
    )
    if leaves or any(_is_part(each, model) for each in audit.loop.of(Kind.MODE)):
        return None
    return diff_of(before, line_after(site.filename, part, f"{name}.train()"))


def training_sites(loop: LoopLedger) -> set[Site]:
    """All lines on the path to a backward or a step."""
    return {site for each in loop.of(Kind.BACKWARD, Kind.STEP) for site in each.stack}


def _belongs_to_another(audit: Audit, model: nn.Module) -> bool:
    return any(child is model for each in audit.modules.known() for child in each._modules.values())


def _switches_back(loop: LoopLedger, model: nn.Module) -> bool:
    """Whether the program repeatedly calls train()."""
    on = [
        each.step for each in loop.of(Kind.MODE) if each.is_about(model) and each.detail["training"]
    ]
    return len(set(on)) > 1
