"""The failing call, read from a traceback, where no sensor saw it made: its operation and operands are still in the frames."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType, TracebackType
from typing import Any

from torch import nn

from whence.lineage.looking import Unknown, look
from whence.source.sites import Site, frames_in, variable, variables
from whence.source.text import statement_of

OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.MatMult: operator.matmul,
}

Look = Callable[[ast.expr, FrameType], Any]


class _Unknown:
    """An argument that cannot be told from what is left."""


UNKNOWN = _Unknown()


@dataclass(slots=True)
class Remains:
    """What is left of a call that raised. `func` is None where the operation cannot be told."""

    func: Any = None
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    frames: list[FrameType] = field(default_factory=list)
    """All frames the exception came through, innermost first."""
    module: nn.Module | None = None

    @property
    def is_whole(self) -> bool:
        return self.func is not None and all(
            each is not UNKNOWN for each in (*self.args, *self.kwargs.values())
        )

    def known(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with None for those that cannot be told."""
        args = tuple(None if each is UNKNOWN else each for each in self.args)
        return args, {name: None if each is UNKNOWN else each for name, each in self.kwargs.items()}


def examine(traceback: TracebackType | None, look: Look = look) -> Remains:
    """Find out what was called with what, from the innermost frame outwards."""
    frames = frames_in(traceback)
    if not frames:
        return Remains()
    module = next((each for each in map(_module_of, frames) if each is not None), None)
    layer = _layer_frame(frames)
    if layer is not None and layer is not frames[0]:
        # A layer's own check refused its input before any torch call: the layer is what failed.
        return Remains(variables(layer)["self"], _arguments(layer), {}, frames, module)
    func, args, kwargs = _called(frames[0], _innermost_position(traceback), look)
    return Remains(func, args, kwargs, frames, module)


def evaluated(node: ast.expr, frame: FrameType) -> Any:
    """Like `look`, but calls in the expression are made again: only ever in a child process."""
    try:
        return look(node, frame)
    except Unknown:
        pass
    code = compile(ast.Expression(node), frame.f_code.co_filename, "eval")
    try:
        # In one dict: what is within a comprehension sees no local variables of a function.
        return eval(code, {**frame.f_globals, **variables(frame)})
    except Exception as error:
        raise Unknown from error


def _innermost_position(traceback: TracebackType | None) -> int:
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback.tb_lasti if traceback is not None else 0


def _module_of(frame: FrameType) -> nn.Module | None:
    owner = variable(frame, "self") if frame.f_code.co_name == "forward" else None
    return owner if isinstance(owner, nn.Module) else None


def _layer_frame(frames: list[FrameType]) -> FrameType | None:
    """The innermost forward of one of torch's own layers, if the exception comes out of one."""
    for frame in frames:
        module = _module_of(frame)
        if module is not None:
            return frame if type(module).__module__.startswith("torch.nn") else None
    return None


def _arguments(frame: FrameType) -> tuple[Any, ...]:
    code = frame.f_code
    names = code.co_varnames[1 : code.co_argcount]
    return tuple(variables(frame).get(name) for name in names)


def _called(
    frame: FrameType, position: int, look: Look
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    node = Site(frame.f_code, position, frame.f_lineno, frame.f_globals).node()
    try:
        match node:
            case ast.Call(func=func, args=args, keywords=keywords):
                return (
                    look(func, frame),
                    tuple(_look_if_known(each, frame, look) for each in args),
                    {
                        each.arg: _look_if_known(each.value, frame, look)
                        for each in keywords
                        if each.arg is not None
                    },
                )
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)], (look(left, frame), look(right, frame)), {}
            case ast.Attribute(value=value, attr=attr):
                return getattr, (look(value, frame), attr), {}
            case ast.Subscript(value=value, slice=index, ctx=ast.Load()):
                return operator.getitem, (look(value, frame), _index(index, frame, look)), {}
            case ast.Subscript(value=value, slice=index, ctx=ast.Store()):
                statement = statement_of(node)
                if isinstance(statement, ast.Assign) and statement.targets == [node]:
                    given = (
                        look(value, frame),
                        _index(index, frame, look),
                        look(statement.value, frame),
                    )
                    return type(given[0]).__setitem__, given, {}
    except Unknown:
        pass
    return None, (), {}


def _index(node: ast.expr, frame: FrameType, look: Look) -> Any:
    if isinstance(node, ast.Slice):
        ends = (node.lower, node.upper, node.step)
        return slice(*(look(each, frame) if each is not None else None for each in ends))
    if isinstance(node, ast.Tuple):
        return tuple(_index(each, frame, look) for each in node.elts)
    return look(node, frame)


def _look_if_known(node: ast.expr, frame: FrameType, look: Look) -> Any:
    try:
        return look(node, frame)
    except Unknown:
        return UNKNOWN
