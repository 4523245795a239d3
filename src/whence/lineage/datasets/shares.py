"""Pictures that are divided by 255 while a sample is made, and were shares of 255 before: by torch, by numpy, in whichever function."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from whence.lineage.looking import Unknown, is_array
from whence.lineage.postmortem import evaluated
from whence.lineage.rerunning import Seen, StatementWatch, run_again
from whence.source.files import program_files
from whence.source.spots import Spot
from whence.source.text import last_name, parent_of, statement_of, tree_of
from whence.tape.batches import LoaderInfo

BYTE = 255
DIVIDING = frozenset({"div", "__truediv__", "true_divide", "div_", "__itruediv__", "divide"})
MULTIPLYING = frozenset({"mul", "__mul__", "__rmul__", "mul_", "__imul__", "multiply"})
CONVERTING = frozenset({"float", "float32", "float64", "tensor", "array"})
ARITHMETIC: dict[type[ast.operator], Callable[[float, float], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
MOST_SAMPLES = 2
Wanted = list[tuple[str, ast.stmt]]
SEVERAL = 8


@dataclass(frozen=True, slots=True)
class Division:
    filename: str
    statement: ast.stmt
    node: ast.AST
    divided: ast.expr
    by: ast.expr
    op: str


@dataclass(frozen=True, slots=True)
class DividedAgain:
    spot: Spot
    highest: float
    """What is left of the brightest point."""


def divided_again(info: LoaderInfo, indices: list[Any]) -> DividedAgain | None:
    """The division while samples are made, if there is one. Runs the program's code: only ever in a child process."""

    def ask(wanted: Wanted, seen: Seen) -> None:
        watch = StatementWatch(wanted, seen)
        watch.during(lambda: info.collated([info.dataset[each] for each in indices[:MOST_SAMPLES]]))

    return _found(ask)


def divided_before(frames: list[FrameType]) -> DividedAgain | None:
    """The division in what the program ran before it began to train. Only ever in a child process."""
    return _found(lambda wanted, seen: run_again(wanted, seen, None, frames))


def _found(ask: Callable[[Wanted, Seen], None]) -> DividedAgain | None:
    divisions = list(divisions_by_255())
    found: list[DividedAgain] = []

    def seen(statement: ast.stmt, frame: FrameType) -> None:
        for each in divisions:
            if each.statement is statement and not found and _is_run(each, frame):
                with suppress(Exception):
                    numbers = (
                        _numbers(evaluated(each.divided, frame))
                        if is_share(each.op, evaluated(each.by, frame))
                        else None
                    )
                    if numbers is not None and are_shares_of_bytes(numbers):
                        found.append(
                            DividedAgain(
                                Spot.of_node(each.filename, each.node), float(numbers.max()) / BYTE
                            )
                        )

    with suppress(Exception):
        ask([(each.filename, each.statement) for each in divisions], seen)
    return found[0] if found else None


WITHIN = {
    ast.Lambda: "<lambda>",
    ast.ListComp: "<listcomp>",
    ast.GeneratorExp: "<genexpr>",
    ast.DictComp: "<dictcomp>",
}


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
    """`x / 255`, `x /= MAX`, `x.div(255)`, `x * (1 / 255)`, `np.multiply(x, SCALE)` in the program's files."""
    names = _names_for_255()
    for filename in program_files():
        tree = tree_of(filename)
        for node in ast.walk(tree) if tree is not None else ():
            for divided, op, by in _scalings(node):
                statement = statement_of(node) if _may_be_255(by, op, names) else None
                if statement is not None:
                    yield Division(filename, statement, node, divided, by, op)


def is_share(op: str, by: Any) -> bool:
    """Whether to divide, or to multiply, by a number is to divide by 255."""
    number = by.item() if hasattr(by, "item") and getattr(by, "size", 2) == 1 else by
    if not isinstance(number, int | float):
        return False
    return number == BYTE if op in DIVIDING else abs(number * BYTE - 1) < 1e-6


def _scalings(node: ast.AST) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """What an expression divides or multiplies, how, and by what."""
    match node:
        case ast.BinOp(left=divided, op=ast.Div(), right=by):
            yield divided, "div", by
        case ast.BinOp(left=one, op=ast.Mult(), right=other):
            yield one, "mul", other
            yield other, "mul", one
        case ast.AugAssign(target=ast.Name(id=name), op=ast.Div() | ast.Mult() as op, value=by):
            divided = ast.copy_location(ast.Name(name, ast.Load()), node)
            yield divided, "div" if isinstance(op, ast.Div) else "mul", by
        case ast.Call(func=ast.Attribute(value=divided, attr=name), args=[by]) if (
            name in DIVIDING | MULTIPLYING
        ):
            yield divided, name, by
        case ast.Call(func=ast.Attribute(attr=name), args=[divided, by]) if (
            name in DIVIDING | MULTIPLYING
        ):
            yield divided, name, by


def _may_be_255(by: ast.expr, op: str, names: set[str]) -> bool:
    number = folded(by)
    return is_share(op, number) if number is not None else last_name(by) in names


def _names_for_255() -> set[str]:
    """Variables, attributes and parameters that are 255, or its reciprocal, somewhere in the program."""
    found: set[str] = set()
    for tree in filter(None, map(tree_of, program_files())):
        for name, value in _named_values(tree):
            number = folded(value)
            if number is not None and (is_share("div", number) or is_share("mul", number)):
                found.add(name)
    return found


def _named_values(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((last_name(each), value) for each in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield last_name(target), value
            case ast.keyword(arg=str(name), value=value):
                yield name, value
            case ast.arguments(args=[*_] as given, defaults=defaults) if defaults:
                yield from (
                    (one.arg, value)
                    for one, value in zip(given[-len(defaults) :], defaults, strict=False)
                )


def folded(node: ast.expr) -> float | None:
    """The number that an expression without names is: `1 / 255`, `2**8 - 1`, `np.float32(255)`."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int | float) else None
    if isinstance(node, ast.Call) and len(node.args) == 1 and last_name(node.func) in CONVERTING:
        return folded(node.args[0])
    if not isinstance(node, ast.BinOp) or type(node.op) not in ARITHMETIC:
        return None
    left, right = folded(node.left), folded(node.right)
    if left is None or right is None:
        return None
    with suppress(ArithmeticError):
        # In floating point, where a power that is too large overflows at once.
        number = ARITHMETIC[type(node.op)](float(left), float(right))
        return number if isinstance(number, float) else None
    return None


def _numbers(thing: Any) -> torch.Tensor | None:
    """A picture in real numbers, or several; also the points of one in a row."""
    numbers = torch.as_tensor(thing) if is_array(thing) or isinstance(thing, torch.Tensor) else None
    numbers = numbers[None] if numbers is not None and numbers.dim() == 1 else numbers
    return (
        numbers
        if numbers is not None and numbers.dim() in (2, 3, 4) and numbers.is_floating_point()
        else None
    )


def are_shares_of_bytes(content: torch.Tensor, times: int = 1) -> bool:
    """Between 0 and 1, many different ones, and each a whole number of 255ths; or of 255ths of those."""
    whole = content.detach()[:4].double() * BYTE**times
    return (
        float(whole.min()) >= 0
        and 1.5 < float(whole.max()) <= BYTE + 1e-3
        and float((whole - whole.round()).abs().max()) < 1e-3
        and len(set(whole.round().flatten().tolist())) > SEVERAL
    )


def are_bytes(content: torch.Tensor) -> bool:
    """Whole numbers from 0 to 255, many different ones."""
    return not content.is_complex() and are_shares_of_bytes(content.detach()[:4].double() / BYTE)
