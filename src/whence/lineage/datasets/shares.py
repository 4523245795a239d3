"""Pictures that are divided by 255 while a sample is made, and were shares of 255 before: by torch, by numpy, in whichever function."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from whence.lineage.looking import Unknown, is_array
from whence.lineage.postmortem import evaluated
from whence.lineage.rerunning import StatementWatch
from whence.source.files import program_files
from whence.source.spots import Spot
from whence.source.text import parent_of, statement_of, tree_of
from whence.tape.batches import LoaderInfo

BYTE = 255
METHODS = frozenset({"div", "div_", "true_divide", "divide"})
MOST_SAMPLES = 2
SEVERAL = 8


@dataclass(frozen=True, slots=True)
class Division:
    filename: str
    statement: ast.stmt
    node: ast.AST
    divided: ast.expr


@dataclass(frozen=True, slots=True)
class DividedAgain:
    spot: Spot
    highest: float
    """What is left of the brightest point."""


def divided_again(info: LoaderInfo, indices: list[Any]) -> DividedAgain | None:
    """The division, if there is one. Runs the program's code: only ever in a child process."""
    divisions = list(divisions_by_255())
    found: list[DividedAgain] = []

    def seen(statement: ast.stmt, frame: FrameType) -> None:
        for each in divisions:
            if each.statement is statement and not found and _is_run(each, frame):
                with suppress(Exception):
                    numbers = _numbers(evaluated(each.divided, frame))
                    if numbers is not None and are_shares_of_bytes(numbers):
                        found.append(DividedAgain(Spot.of_node(each.filename, each.node), float(numbers.max()) / BYTE))

    watch = StatementWatch([(each.filename, each.statement) for each in divisions], seen)
    with suppress(Exception):
        watch.during(lambda: info.collated([info.dataset[each] for each in indices[:MOST_SAMPLES]]))
    return found[0] if found else None


WITHIN = {ast.Lambda: "<lambda>", ast.ListComp: "<listcomp>", ast.GeneratorExp: "<genexpr>", ast.DictComp: "<dictcomp>"}


def _is_run(division: Division, frame: FrameType) -> bool:
    """Whether a frame that comes to a statement comes to the division in it: not to that of the other branch, or of a lambda in it."""
    child, name = division.node, ""
    while child is not division.statement:
        parent = parent_of(child)
        if parent is None or isinstance(parent, ast.BoolOp):
            return False
        if isinstance(parent, ast.IfExp) and child is not parent.test and not name:
            with suppress(Unknown):
                if bool(evaluated(parent.test, frame)) is (child is parent.body):
                    child = parent
                    continue
            return False
        name = name or WITHIN.get(type(parent), "")
        child = parent
    running = frame.f_code.co_name
    return running == name if name else running not in WITHIN.values()


def divisions_by_255() -> Iterator[Division]:
    """`x / 255`, `x /= 255.0`, `x.div(255)` in the program's files."""
    for filename in program_files():
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            divided = _divided(node)
            statement = statement_of(node) if divided is not None else None
            if divided is not None and statement is not None:
                yield Division(filename, statement, node, divided)


def _divided(node: ast.AST) -> ast.expr | None:
    match node:
        case ast.BinOp(left=divided, op=ast.Div(), right=ast.Constant(value=255)):
            return divided
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Div(), value=ast.Constant(value=255)):
            return ast.copy_location(ast.Name(name, ast.Load()), node)
        case ast.Call(func=ast.Attribute(value=divided, attr=name), args=[ast.Constant(value=255)]) if name in METHODS:
            return divided
    return None


def _numbers(thing: Any) -> torch.Tensor | None:
    """A picture in real numbers, or several."""
    numbers = torch.as_tensor(thing) if is_array(thing) or isinstance(thing, torch.Tensor) else None
    return numbers if numbers is not None and numbers.dim() in (2, 3, 4) and numbers.is_floating_point() else None


def are_shares_of_bytes(content: torch.Tensor) -> bool:
    """Between 0 and 1, many different ones, and each a whole number of 255ths."""
    whole = content.detach()[:4].double() * BYTE
    return (
        float(whole.min()) >= 0
        and 1.5 < float(whole.max()) <= BYTE + 1e-3
        and float((whole - whole.round()).abs().max()) < 1e-3
        and len(set(whole.round().flatten().tolist())) > SEVERAL
    )
