"""Where a sample departs from the others: two courses are compared, from the odd result back to the last line at which they were alike."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType

from whence.finding import Hop
from whence.lineage.datasets.courses import Course, Held, Run, Size, Step
from whence.lineage.lines import part_at
from whence.source.spots import Spot
from whence.source.text import statement_at

DEEPEST = 60
MOST_COMPARED = 12
SLACK = 1.25
"""What counts in strides often adds one at each end."""
Sizes = list[Size | None]
"""Of one thing in all samples, the odd one first; None in those that did not come by."""


@dataclass(frozen=True, slots=True)
class Departure:
    spot: Spot
    hops: tuple[Hop, ...] = ()
    alike: Spot | None = None
    """The line that had made samples alike before, where this one undoes it."""


@dataclass(frozen=True, slots=True)
class Point:
    """A step of the odd sample, or of one that the odd one should have done like."""

    run: Run
    number: int

    @property
    def step(self) -> Step:
        return self.run.steps[self.number]

    def statement(self) -> ast.stmt | None:
        return statement_at(self.run.code.co_filename, self.step.line)


def departure(odd: Course, others: list[Course], path: str) -> Departure | None:
    """The line at which a part of a sample came to another size than that of the others, which are alike in it."""
    others = [each for each in others if each.is_whole][:MOST_COMPARED]
    if not odd.is_whole or not others or (found := _given(odd, path)) is None:
        return None
    search = Search(others)
    run, path = found
    point = search.of_returned(run, path)
    return (
        _told(point, search, path if point is not None and point.run is run else "")
        if point is not None
        else None
    )


@dataclass(frozen=True, slots=True)
class Oddity:
    """What a line read that raised, and that was of another size in the samples with which it went well."""

    name: str
    size: Size
    usual: Size
    since: Spot | None
    """Where it came to that, if that is another line."""


def oddity(odd: Course, others: list[Course], code: CodeType, line: int) -> Oddity | None:
    """What is another in a sample that raised, at the line that did; the others are alike in it."""
    others = [each for each in others if each.is_whole][:MOST_COMPARED]
    run = next(
        (each for each in _runs_in(odd.runs) if each.code is code and each.steps[-1].line == line),
        None,
    )
    if run is None or not odd.is_whole:
        return None
    search, here = Search(others), Point(run, run.end)
    for name in _held_by(here.statement(), here):
        size, *sizes = search._sizes(here, name)
        usual = {each for each in sizes if each is not None}
        if (
            size is not None
            and len(usual) == 1
            and size not in usual
            and sizes.count(None) <= len(sizes) // 2
        ):
            born = search.of_variable(here, name)
            spot = _spot(born, "") if born is not None and not _only_reads(born) else None
            return Oddity(name, size, usual.pop(), spot)
    return None


def _runs_in(runs: list[Run]) -> Iterator[Run]:
    """All calls of a course that came to a line, the last first, and what they called before themselves."""
    for run in reversed(runs):
        yield from _runs_in([each for step in run.steps for each in step.calls])
        if run.steps:
            yield run


def _given(course: Course, path: str) -> tuple[Run, str] | None:
    """The function of the program's that gave a part of a sample, and the place it has there: `enumerate` puts it further in."""
    while True:
        for run in reversed(course.runs):
            if path in run.returned and run.steps:
                return run, path
        if "[" not in path[1:]:
            return None
        path = path[path.index("[", 1) :]


def _told(point: Point, search: Search, path: str) -> Departure | None:
    undone = search.undoing(point)
    if undone is None:
        spot = _spot(point, path) if not _only_reads(point) else None
        return Departure(spot) if spot is not None else None
    alike, here = undone
    made, spot, inner = _spot(alike, ""), _spot(here, ""), _spot(point, "")
    if spot is None or made is None or inner is None:
        return None
    return Departure(spot, (inner.hop("the sizes diverge again here"),), made)


@dataclass(slots=True)
class Search:
    others: list[Course]
    _depth: int = 0

    def of_returned(self, run: Run, path: str) -> Point | None:
        """Where a part of what a function returned became odd."""
        here = Point(run, run.end)
        value = _value(here.statement())
        part = part_at(value, path) if value is not None else here.statement()
        return self._of_expression(part, here, run.returned[path], self._returned(run, path))

    def _of_expression(
        self, node: ast.AST | None, here: Point, made: Held, sizes: Sizes
    ) -> Point | None:
        """The birth of what an expression made: in a function that it calls, in something that it uses, or here."""
        self._depth += 1
        if self._depth > DEEPEST:
            return None
        for inner in reversed(here.step.calls):
            for path, each in inner.returned.items():
                if inner.steps and (
                    _is(each, made) or self._leads(each, self._returned(inner, path), sizes)
                ):
                    return self.of_returned(inner, path)
        names = _read_by(node, here)
        for name in sorted(names, key=lambda each: here.step.before[each].is_count):
            if self._leads(here.step.before[name], self._sizes(here, name), sizes):
                return self.of_variable(here, name)
        return here

    def of_variable(self, here: Point, name: str) -> Point | None:
        """Where a variable, as it is before a step, became odd."""
        run, now = here.run, here.step.before[name]
        bound = _binding(run, here.number, name)
        after = Point(run, bound + 1 if bound is not None else 0)
        if (left_out := self._left_out(after, here, name)) is not None:
            return left_out
        sizes = self._sizes(after, name)
        if bound is None:
            return self._of_argument(run, now, sizes)
        maker = Point(run, bound)
        if not any(self._twin_of(maker, course) for course in self.others):
            # Only what is odd comes by here. Where that changes its size, this is how the program treats it.
            used = _held_by(maker.statement(), maker)
            as_it_was = next(
                (each for each in used if maker.step.before[each].size == now.size), None
            )
            return self.of_variable(maker, as_it_was) if as_it_was is not None else maker
        value = _value(maker.statement())
        part = (
            part_at(value, name[name.index("[") :])
            if value is not None and "[" in name
            else maker.statement()
        )
        return self._of_expression(part, maker, now, sizes)

    def _of_argument(self, run: Run, given: Held, sizes: Sizes) -> Point | None:
        if run.outer is None:
            return None
        here = Point(*run.outer)
        for inner in reversed(here.step.calls[: here.step.calls.index(run)]):
            for path, each in inner.returned.items():
                if _is(each, given) and inner.steps:
                    return self.of_returned(inner, path)
        same = [name for name, each in here.step.before.items() if _is(each, given)]
        for name in _read_by(here.statement(), here) if not same else ():
            if self._leads(here.step.before[name], self._sizes(here, name), sizes):
                return self.of_variable(here, name)
        return self.of_variable(here, same[0]) if same else here

    def _left_out(self, after: Point, here: Point, name: str) -> Point | None:
        """A line that gives the others their size between two steps, and that the odd sample did not come by."""
        lines = {each.line for each in here.run.steps}
        for course in self.others:
            then, now = self._twin_of(after, course), self._twin_of(here, course)
            if then is None or now is None or name not in now.step.before:
                continue
            bound = _binding(now.run, now.number, name, by_size=True)
            if (
                bound is not None
                and bound >= then.number
                and now.run.steps[bound].line not in lines
            ):
                return Point(now.run, bound)
        return None

    def undoing(self, point: Point) -> tuple[Point, Point] | None:
        """The line that calls for what made samples different, if another line of the same function had made them alike; that one first."""
        inner = point.run
        while inner.outer is not None:
            here = Point(*inner.outer)
            for name in _held_by(here.statement(), here):
                bound = _binding(here.run, here.number, name)
                holds_others = any(each.startswith(f"{name}[") for each in here.step.before)
                if bound is None or holds_others or here.run.steps[bound].line == here.step.line:
                    continue
                alike = Point(here.run, bound)
                if not _differ(self._sizes(here, name)) and self._varied_before(alike):
                    return alike, here
            inner = here.run
        return None

    def _varied_before(self, maker: Point) -> bool:
        """Whether what a line was given was of different sizes."""
        given = [self._sizes(maker, each) for each in _held_by(maker.statement(), maker)]
        for inner in maker.step.calls:
            given += [
                self._sizes(Point(inner, 0), name)
                for name, each in (inner.steps[0].before.items() if inner.steps else ())
                if not each.is_count
            ]
        return any(map(_differ, given))

    def _leads(self, held: Held, given: Sizes, made: Sizes) -> bool:
        return _says(given, made) if held.is_count else self._carries(given, made)

    def _carries(self, given: Sizes, made: Sizes) -> bool:
        """Whether one thing may be of another size in the odd sample because another is.

        It is not where that is the same as in a sample with another result. Nor where the others are of many sizes and become alike:
        they are made so. What counts in strides makes alike what is less than a stride apart.
        """
        pairs = [
            (one, other) for one, other in zip(given[1:], made[1:], strict=True) if one and other
        ]
        if not given[0] or not made[0] or not pairs:
            return False
        if any(one == given[0] and other != made[0] for one, other in pairs):
            return False
        before, after = [one for one, _ in pairs], [other for _, other in pairs]
        if len(set(after)) > 1 or len(set(before)) == 1:
            return len(set(after)) > 1 or before[0] != given[0]
        return len({len(each) for each in before}) == 1 and _is_within_a_stride(
            before, made[0], after[0]
        )

    def _sizes(self, point: Point, name: str) -> Sizes:
        """Of a variable before a step, in all samples."""
        twins = [self._twin_of(point, course) for course in self.others]
        held = [
            point.step.before[name],
            *(each.step.before.get(name) if each is not None else None for each in twins),
        ]
        return [each.size if each is not None else None for each in held]

    def _returned(self, run: Run, path: str) -> Sizes:
        twins = [_twin(run, course) for course in self.others]
        held = [
            run.returned[path],
            *(each.returned.get(path) if each is not None else None for each in twins),
        ]
        return [each.size if each is not None else None for each in held]

    def _twin_of(self, point: Point, course: Course) -> Point | None:
        run = _twin(point.run, course)
        number = _same_step(point.run, point.number, run) if run is not None else None
        return Point(run, number) if run is not None and number is not None else None


def _differ(sizes: Sizes) -> bool:
    return len({each for each in sizes if each is not None}) > 1


def _is(one: Held, other: Held) -> bool:
    return one == other and not one.is_count


def _says(numbers: Sizes, made: Sizes) -> bool:
    """Whether a number is the size that something has, in all samples, and another one in the odd sample."""
    pairs = [(one[0], other) for one, other in zip(numbers, made, strict=True) if one and other]
    differs = len(pairs) > 1 and all(one != pairs[0][0] for one, _ in pairs[1:])
    return differs and all(one in other for one, other in pairs)


def _is_within_a_stride(before: list[Size], odd: Size, usual: Size) -> bool:
    varied = next(axis for axis in zip(*before, strict=True) if len(set(axis)) > 1)
    result = next((min(each) for each in zip(odd, usual, strict=False) if len(set(each)) > 1), 0)
    return bool(max(varied) - min(varied) <= math.ceil(SLACK * max(varied) / max(result, 1)))


def _twin(run: Run, course: Course) -> Run | None:
    """The same call in the course of another sample."""
    if run.outer is None:
        return next((each for each in course.runs if each.code is run.code), None)
    outer, number = run.outer
    there = _twin(outer, course)
    step = _same_step(outer, number, there) if there is not None else None
    if there is None or step is None:
        return None
    before = [each for each in outer.steps[number].calls if each.code is run.code]
    alike = [each for each in there.steps[step].calls if each.code is run.code]
    place = before.index(run)
    return alike[place] if place < len(alike) else None


def _same_step(run: Run, number: int, other: Run) -> int | None:
    """The step of another run in which the same line comes by for as many times."""
    line = run.steps[number].line
    times = sum(each.line == line for each in run.steps[:number])
    places = [place for place, each in enumerate(other.steps) if each.line == line]
    return places[times] if times < len(places) else None


def _binding(run: Run, number: int, name: str, by_size: bool = False) -> int | None:
    """The last step before a step after which a variable held what it holds there; None if that was so from the beginning."""
    now = run.steps[number].before[name]
    for place in range(number - 1, -1, -1):
        was = run.steps[place].before.get(name)
        if was is None or (was.size != now.size if by_size else was != now):
            return place
    return None


def _held_by(node: ast.AST | None, here: Point) -> list[str]:
    """What an expression or a statement reads of what has a size."""
    return [key for key in _read_by(node, here) if not here.step.before[key].is_count]


def _read_by(node: ast.AST | None, here: Point) -> list[str]:
    """The same, and numbers. Of a loop or a block, its head reads."""
    match node:
        case ast.For(iter=head) | ast.While(test=head) | ast.If(test=head):
            node = head
        case ast.With(items=items):
            node = ast.Tuple([each.context_expr for each in items], ast.Load())
    read = (
        [each for each in ast.walk(node) if isinstance(each, ast.Name)] if node is not None else []
    )
    names = [
        each.id
        for each in read
        if isinstance(each.ctx, ast.Load) or isinstance(node, ast.AugAssign)
    ]
    return [key for key in here.step.before if key.split("[")[0] in names]


def _value(statement: ast.stmt | None) -> ast.expr | None:
    """What a statement binds, returns or yields."""
    value = getattr(statement, "value", getattr(statement, "iter", None))
    if isinstance(value, ast.Yield):
        value = value.value
    return value if isinstance(value, ast.expr) else None


def _only_reads(point: Point) -> bool:
    """Whether a line hands out what was stored: who stored it so is elsewhere."""
    value = _value(point.statement())
    plain = (
        ast.Name,
        ast.Attribute,
        ast.Subscript,
        ast.Tuple,
        ast.List,
        ast.expr_context,
        ast.Constant,
    )
    reads = value is not None and all(isinstance(each, plain) for each in ast.walk(value))
    return reads and not _held_by(value, point)


def _spot(point: Point, path: str) -> Spot | None:
    value = _value(point.statement())
    node = part_at(value, path) if value is not None else point.statement()
    return Spot.of_node(point.run.code.co_filename, node) if node is not None else None
