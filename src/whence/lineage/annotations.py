"""Annotations of shapes and types (jaxtyping's) that a checker found broken: which argument, and what about it.

Checkers (beartype, typeguard) differ in what they raise and say. What they have in common is looked at instead: the frames
that the exception came through hold the function and what it was given, and annotations can be asked again. None of these
packages is imported for it: a program that has such annotations has imported them.
"""

from __future__ import annotations

import inspect
import os
import sys
import types
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

from whence.source.sites import frames_in, is_library, variables

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep
DTYPES = (
    torch.float32,
    torch.int64,
    torch.bool,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int32,
    torch.uint8,
)
MOST_SIZES = 64
LONGEST_CHAIN = 8


@dataclass(frozen=True, slots=True)
class Annotated:
    """An argument, a part of one, or what was returned, with the annotation that is on it."""

    label: str
    value: Any
    annotation: Any

    def text(self) -> str:
        return str(getattr(self.annotation, "__name__", self.annotation))


@dataclass(frozen=True, slots=True)
class Broken:
    """The first annotation of a call that does not hold. `wanted` is the one change with which it would."""

    function: str
    place: Annotated
    before: tuple[Annotated, ...]
    """Those that were looked at before it: they say what the names of axes stand for."""
    dtype: torch.dtype | None = None
    axis: int | None = None
    wanted: int | None = None
    rank: int | None = None


def broken_annotation(exception: BaseException) -> Broken | None:
    """What a checker refused, or None if the exception is not a checker's."""
    frames = frames_in(exception.__traceback__)
    if not frames or not _may_be_checkers(frames[0]) or "jaxtyping" not in sys.modules:
        return None
    everywhere = [frame for each in _chain(exception) for frame in frames_in(each.__traceback__)]
    for frame in everywhere:
        for function, arguments in _calls(frame):
            found = _first_broken(function, arguments, everywhere)
            if found is not None:
                return found
    return None


def _may_be_checkers(frame: FrameType) -> bool:
    filename = frame.f_code.co_filename
    return is_library(filename) and not filename.startswith(TORCH_FOLDER)


def _chain(exception: BaseException | None) -> list[BaseException]:
    found: list[BaseException] = []
    while exception is not None and len(found) < LONGEST_CHAIN:
        found.append(exception)
        exception = exception.__cause__ or exception.__context__
    return found


def _calls(frame: FrameType) -> Iterator[tuple[FunctionType, dict[str, Any]]]:
    """Functions with annotations that a frame is about to call or is the body of, with their arguments by name."""
    own = _function_of(frame)
    if own is not None:
        names = frame.f_code.co_varnames[
            : frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
        ]
        yield own, {name: variables(frame)[name] for name in names if name in variables(frame)}
    given = _passed_on(frame)
    if given is None:
        return
    for thing in list(variables(frame).values()):
        if isinstance(thing, FunctionType) and _annotations(thing):
            try:
                bound = inspect.signature(thing).bind(*given[0], **given[1])
            except (TypeError, ValueError):
                continue
            yield thing, dict(bound.arguments)


def _passed_on(frame: FrameType) -> tuple[list[Any], dict[str, Any]] | None:
    """What a wrapper, which takes anything, was given."""
    code, names_there = frame.f_code, variables(frame)
    if not code.co_flags & inspect.CO_VARARGS:
        return None
    named = code.co_argcount + code.co_kwonlyargcount
    positional = [names_there.get(name) for name in code.co_varnames[: code.co_argcount]]
    positional += names_there.get(code.co_varnames[named], ())
    by_name = (
        names_there.get(code.co_varnames[named + 1], {})
        if code.co_flags & inspect.CO_VARKEYWORDS
        else {}
    )
    return positional, by_name


def _function_of(frame: FrameType) -> FunctionType | None:
    """The function that a frame of the program's runs, found by its name."""
    code = frame.f_code
    if is_library(code.co_filename) or code.co_name.startswith("<"):
        return None
    outer = frame.f_back
    parts = code.co_qualname.rpartition("<locals>.")[2].split(".")
    for names in (frame.f_globals, variables(outer) if outer is not None else {}):
        thing = names.get(parts[0])
        for part in parts[1:]:
            thing = vars(thing).get(part) if isinstance(thing, type) else None
        function = _with_code(thing, code)
        if function is not None and _annotations(function):
            return function
    return None


def _with_code(thing: Any, code: CodeType) -> FunctionType | None:
    thing = thing.__func__ if isinstance(thing, staticmethod | classmethod) else thing
    while isinstance(thing, FunctionType) and thing.__code__ is not code:
        thing = getattr(thing, "__wrapped__", None)
    return thing if isinstance(thing, FunctionType) else None


def _annotations(function: FunctionType) -> dict[str, Any]:
    if not function.__annotations__:
        return {}
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception:
        # Written as text, with names that are not known here.
        return {
            name: each
            for name, each in function.__annotations__.items()
            if not isinstance(each, str)
        }


def _first_broken(
    function: FunctionType, arguments: dict[str, Any], frames: list[FrameType]
) -> Broken | None:
    annotations = _annotations(function)
    places = [
        place
        for name, value in arguments.items()
        if name in annotations
        for place in _places(name, value, annotations[name])
    ]
    try:
        for number, place in enumerate(places):
            if not _hold([*places[:number], place]):
                return _told_apart(function.__qualname__, place, tuple(places[:number]))
        for frame in frames if "return" in annotations else ():
            for value in (
                list(variables(frame).values()) if is_library(frame.f_code.co_filename) else ()
            ):
                for place in _places("the result", value, annotations["return"]):
                    if all(value is not each.value for each in places) and not _hold(
                        [*places, place]
                    ):
                        return _told_apart(function.__qualname__, place, tuple(places))
    except Exception:
        # Annotations that refer to other things than sizes cannot be asked by themselves.
        return None
    return None


def _places(label: str, value: Any, annotation: Any) -> Iterator[Annotated]:
    """The tensors in an argument with the annotation on each: through unions, lists, tuples and dicts."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        yield from _places(label, value, inner[0])
    elif origin in (typing.Union, types.UnionType):
        shaped = [each for each in inner if _is_shaped(each)]
        if len(shaped) == 1:
            yield from _places(label, value, shaped[0])
    elif origin is tuple and isinstance(value, tuple):
        kinds = inner[:1] * len(value) if len(inner) == 2 and inner[1] is ... else inner
        for number, (each, kind) in enumerate(zip(value, kinds, strict=False)):
            yield from _places(f"{label}[{number}]", each, kind)
    elif origin is list and isinstance(value, list) and inner:
        for number, each in enumerate(value):
            yield from _places(f"{label}[{number}]", each, inner[0])
    elif origin is dict and isinstance(value, dict) and len(inner) == 2:
        for key, each in value.items():
            yield from _places(f"{label}[{key!r}]", each, inner[1])
    elif _is_shaped(annotation) and isinstance(value, torch.Tensor):
        yield Annotated(label, value, annotation)


def _is_shaped(annotation: Any) -> bool:
    return isinstance(annotation, type) and all(
        hasattr(annotation, name) for name in ("array_type", "dim_str", "dtypes")
    )


def _hold(places: list[Annotated]) -> bool:
    """Whether the last of these annotations holds, where the names of axes mean the same in all."""
    with sys.modules["jaxtyping"].jaxtyped("context"):
        return [isinstance(each.value, each.annotation) for each in places][-1]


def _told_apart(function: str, place: Annotated, before: tuple[Annotated, ...]) -> Broken:
    """Find the one change with which the annotation holds, on tensors without data."""
    tensor: torch.Tensor = place.value
    shape = list(tensor.shape)

    def fits(shape: list[int], dtype: torch.dtype) -> bool:
        other = torch.empty(shape, dtype=dtype, device="meta")
        return _hold([*before, Annotated(place.label, other, place.annotation)])

    for dtype in DTYPES:
        if dtype != tensor.dtype and fits(shape, dtype):
            return Broken(function, place, before, dtype=dtype)
    dims = getattr(place.annotation, "dims", None)
    if (
        isinstance(dims, tuple | list)
        and place.annotation.index_variadic is None
        and len(dims) != len(shape)
    ):
        return Broken(function, place, before, rank=len(dims))
    written = [int(word) for word in str(place.annotation.dim_str).split() if word.isdigit()]
    sizes = list(
        dict.fromkeys([*written, *(size for each in before for size in each.value.shape), *shape])
    )
    for axis in range(len(shape)):
        for size in sizes[:MOST_SIZES]:
            if size != shape[axis] and fits(
                [*shape[:axis], size, *shape[axis + 1 :]], tensor.dtype
            ):
                return Broken(function, place, before, axis=axis, wanted=size)
    return Broken(function, place, before)
