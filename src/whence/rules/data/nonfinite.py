"""NaN and Inf that came with the data."""

from __future__ import annotations

import ast
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from types import ModuleType

import torch

from whence.finding import Confidence, Finding, Hop, Operand, Sample
from whence.lineage.births import Contents, first_bad, is_deliberate, is_from_outside
from whence.lineage.grounds import ground_of_node, look_at
from whence.lineage.lines import WRAPPERS, operation_in
from whence.lineage.looking import Unknown
from whence.lineage.properties import NotFinite
from whence.lineage.rows import Rows, blamed_rows, is_finite_outcome
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.nonfinite.forward import Scenario, forward_finding, scenario_of
from whence.rules.nonfinite.reasons import Reason, bad_number
from whence.rules.nonfinite.telling import (
    loss_text,
    number_text,
    operand_hops,
    place_text,
    trip_finding,
)
from whence.rules.rule import Rank, trip_rule
from whence.rules.telling import describe
from whence.source.definitions import find_definition
from whence.source.spots import Spot
from whence.source.text import enclosing, last_name, statement_of
from whence.tape.batches import BatchLeaf
from whence.tape.replay import Unreplayable
from whence.tape.tape import Call, Value
from whence.tape.trip import Notice, Trip

ROWS_OR_WINDOWS = (2, 3)
"""Axes of a batch of table rows, and of windows over them; the last axis is the columns."""


@dataclass(frozen=True, slots=True)
class Source:
    """A leaf that was not finite, and the trail back to its origin."""

    value: Value
    content: torch.Tensor
    index: tuple[int, ...]
    trail: Trail
    rows: Rows | None


def source_of(trip: Trip) -> Source | None:
    """The data leaf through which the NaN or Inf of a trip entered the step."""
    born = trip.born
    if born is None or born.leaf is None or trip.notice is Notice.GRADIENT:
        return None
    value = born.leaf
    tensor = Contents(trip.tape, trip.run).of(value)
    if tensor is None or (tensor.requires_grad and value.leaf is None):
        return None
    index = first_bad(tensor, born.trouble)
    column, columns = (index[-1], tensor.shape[-1]) if len(index) in ROWS_OR_WINDOWS else (-1, 0)
    trail = trace(
        _of_this_step(value, trip),
        NotFinite(trip.tape, column, columns, infinite=born.trouble == "inf"),
        trip,
    )
    trail = _where_numpy_warned(trail, trip)
    unseen = trip.now.late or (trip.tape.has_gaps and not _is_from_outside(value, trip))
    if value.leaf is None and (trail.spot is None or unseen):
        # Its creation was not recorded, so it may not come from outside.
        return None
    rows = None
    if tensor.dim():
        rows = blamed_rows(trip, ~torch.isfinite(tensor), lambda run: is_finite_outcome(trip, run))
    return Source(value, tensor, index, trail, rows)


def _where_numpy_warned(trail: Trail, trip: Trip) -> Trail:
    """Move the origin to the line below the trail's end at which NumPy warned."""
    end = trail.spot
    if end is None or trail.birth is Birth.SAMPLE:
        return trail
    if _is_arithmetic(end):
        earlier = _warned_before(end, trip)
        return (
            replace(trail, spot=earlier, hops=(end.hop("passed on here"), *trail.hops))
            if earlier is not None
            else trail
        )
    beneath = [
        stack for stack in trip.warned if any(Spot.of_site(site).is_within(end) for site in stack)
    ]
    found = [
        spot for stack in beneath or trip.warned if _is_arithmetic(spot := Spot.of_site(stack[0]))
    ]
    if not found or (not beneath and (len(trip.warned) > 1 or _calls_library(end, trip))):
        return trail
    hops = (end.hop("passed on here"), *trail.hops)
    return replace(
        trail,
        birth=Birth.SOURCE,
        spot=found[0],
        hops=hops,
        op=None,
        module=None,
        is_certain=bool(beneath),
    )


def _warned_before(end: Spot, trip: Trip) -> Spot | None:
    """An earlier line of the function at which NumPy warned, if it did not warn at this one."""
    warned = [Spot.of_site(stack[0]) for stack in trip.warned if stack]
    same = [
        each for each in warned if (each.filename, each.function) == (end.filename, end.function)
    ]
    if any(each.line == end.line for each in same):
        return None
    return next((each for each in same if each.line < end.line and _is_arithmetic(each)), None)


def _is_arithmetic(spot: Spot) -> bool:
    """Whether a NaN can be made there, not only passed on."""
    node = spot.node()
    return isinstance(node, ast.AugAssign) or (
        node is not None and operation_in(node) in ARITHMETIC
    )


def _calls_library(spot: Spot, trip: Trip) -> bool:
    """`pandas.read_csv(path)`: the NaN may come from the library, whatever NumPy warned about."""
    node = spot.node()
    calls = (
        [each.func for each in ast.walk(node) if isinstance(each, ast.Call)]
        if node is not None
        else []
    )
    asked = [each for each in calls if last_name(each) not in PUTS_TOGETHER]
    names = {each.id for func in asked for each in ast.walk(func) if isinstance(each, ast.Name)}
    return any(
        isinstance(frame.f_globals.get(name), ModuleType) for frame in trip.frames for name in names
    )


def _is_from_outside(value: Value, trip: Trip) -> bool:
    """Whether the value was made from no tensor and is no weight: NumPy or a file provided it."""
    if value.call is not None:
        return is_from_outside(value.call) and trip.run is not None
    tensor = _of_this_step(value, trip).tensor
    return trip.run is not None and tensor is not None and trip.modules.owner_of(tensor) is None


def _of_this_step(value: Value, trip: Trip) -> Value:
    """The leaf with this step's batch or tensor, if the replay uses another step's recording."""
    if value.leaf is None and value.call is None and trip.plan is not None and not trip.plan.own:
        with suppress(Unreplayable):
            return replace(value, ref=weakref.ref(trip.plan.resolve(value)))
    if (
        not isinstance(value.leaf, BatchLeaf)
        or trip.batch_now(value.leaf.batch) is value.leaf.batch
    ):
        return value
    return replace(
        value, leaf=BatchLeaf(trip.batch_now(value.leaf.batch), value.leaf.path), call=None
    )


def sample_of(source: Source) -> Sample | None:
    traced = source.trail.sample
    if traced is not None and traced.dataset_index is not None:
        return traced
    if source.rows is not None:
        leaf = source.value.leaf.path if isinstance(source.value.leaf, BatchLeaf) else None
        return source.rows.sample(leaf)
    return traced


def _report_data(
    trip: Trip, rule: str, source: Source, verdict: str, why: str, fix: str
) -> Finding | None:
    trail = source.trail
    spot = trail.spot
    hops: tuple[Hop, ...] = trail.hops
    counterfactual = None
    if source.rows is not None and (text := loss_text(source.rows.outcome)) is not None:
        counterfactual = f"{source.rows.text()} the loss is {text}"
    born = trip.born
    confidence = None
    if trip.run is None or counterfactual is None:
        # The value itself was seen, so its presence needs no counterfactual.
        confidence = Confidence.PROVEN if spot is not None else Confidence.LIKELY
    if not trail.is_certain:
        confidence = Confidence.LIKELY
    return trip_finding(
        trip,
        rule,
        spot=spot,
        verdict=verdict,
        why=why,
        fix=fix,
        op=operation_of(trail),
        phase=_phase(source),
        module=trail.module,
        sample=sample_of(source),
        chain=(*hops, *operand_hops(born.path if born is not None else (), spot)),
        operands=(
            Operand(
                "data",
                f"{describe(source.content)}  at {place_text(source.index)}: {_number(source)}",
            ),
        ),
        counterfactual=counterfactual,
        confidence=confidence,
    )


def _phase(source: Source) -> str:
    """The program, not the dataset, made data that were bad before the first fetch."""
    trail = source.trail
    leaf = source.value.leaf
    collate = (
        getattr(leaf.batch.info.collate, "__name__", "") if isinstance(leaf, BatchLeaf) else ""
    )
    in_dataset = trail.spot is not None and trail.spot.function in (
        "__getitem__",
        "__iter__",
        "__getitems__",
        collate,
    )
    return "data" if trail.birth is Birth.SAMPLE or in_dataset else "program"


def operation_of(trail: Trail) -> str | None:
    """The operation in the origin's expression, not the call that made a tensor of it."""
    node = trail.spot.node() if trail.spot is not None and trail.birth is not Birth.CALL else None
    return operation_in(node) if node is not None else trail.op


def _number(source: Source) -> str:
    return (
        number_text(float(source.content.detach()[source.index].item()))
        if source.index
        else "NaN or Inf"
    )


def _column(source: Source) -> str:
    if source.trail.column:
        return f", column {source.trail.column!r}"
    return f", column {source.index[-1]}" if len(source.index) == 2 else ""


ARITHMETIC = frozenset(
    {"div", "floor_divide", "remainder", "pow", "mul", "sub", "add", "matmul", "log", "log10"}
    | {"log2", "log1p", "sqrt", "exp", "expm1", "power", "divide", "true_divide", "mean", "std"}
    | {"var", "arccos", "arcsin", "reciprocal"}
)
PUTS_TOGETHER = WRAPPERS | {"stack", "concatenate", "vstack", "hstack", "column_stack", "cat"}
REMEDIES = {
    "div": "Keep the divisor away from 0 at the origin",
    "log": "Keep the argument of log above 0 at the origin",
    "log10": "Keep the argument of log10 above 0 at the origin",
    "log2": "Keep the argument of log2 above 0 at the origin",
    "sqrt": "Keep the argument of sqrt at 0 or above at the origin",
}
SPREADS = frozenset({"std", "nanstd", "var", "nanvar", "ptp", "std_mean", "var_mean"})
EXTREMES = frozenset({"max", "amax", "nanmax", "min", "amin", "nanmin"})


def _divides_by_spread(source: Source, trip: Trip) -> bool:
    """A division by a zero standard deviation or range: NaN wherever that divisor applies."""
    node = source.trail.spot.node() if source.trail.spot is not None else None
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
        return False
    centred = isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Sub)
    if not (centred or _is_spread(node.right)):
        return False
    return _fills_a_part(torch.isnan(source.content), source.index) or _is_zero_there(
        node.right, source, trip
    )


def _is_zero_there(divisor: ast.expr, source: Source, trip: Trip) -> bool:
    """Whether the divisor still exists, has one value per column, and is zero for this column."""
    spot = source.trail.spot
    if spot is None or not source.index:
        return False
    with suppress(Unknown, TypeError, ValueError, RuntimeError):
        held = look_at(divisor, ground_of_node(divisor, spot.filename, trip.frames), trip.frames)
        numbers = torch.as_tensor(held).reshape(-1)
        return len(numbers) == source.content.shape[-1] and bool(numbers[source.index[-1]] == 0)
    return False


def _is_spread(node: ast.expr) -> bool:
    """`x.std(-1)`, `x.max(0) - x.min(0)`, or a variable assigned from it."""
    if isinstance(node, ast.Name):
        scope = enclosing(node, ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)
        made = find_definition(node.id, scope, statement_of(node)) if scope is not None else None
        return (
            made is not None
            and made.value is not None
            and _is_spread_itself(_part(made.value, made.path))
        )
    return _is_spread_itself(node)


def _part(node: ast.expr, path: tuple[int, ...]) -> ast.expr:
    """`raw.std(0)` of `centre, scale = raw.mean(0), raw.std(0)`."""
    for number in path:
        if not isinstance(node, ast.Tuple | ast.List) or number >= len(node.elts):
            return node
        node = node.elts[number]
    return node


def _is_spread_itself(node: ast.expr) -> bool:
    calls = {last_name(each.func) for each in ast.walk(node) if isinstance(each, ast.Call)}
    return bool(calls & SPREADS) or len(calls & EXTREMES) > 1


def _fills_a_part(bad: torch.Tensor, index: tuple[int, ...]) -> bool:
    """Whether a whole column, a sample, or a channel of a sample is bad."""
    if bad.dim() < 2 or not len(bad) or not index:
        return False
    parts = [bad[..., index[-1]], *(bad[index[:depth]] for depth in range(1, bad.dim()))]
    return any(bool(each.all()) for each in parts)


def _torch_spread(scenario: Scenario) -> bool:
    """Whether a division by zero divides by the standard deviation of a constant column."""
    if "div" not in scenario.call.name or len(scenario.operands) < 2:
        return False
    divisor, content = scenario.operands[1]
    if not bool((content == 0).any()):
        return False
    call = divisor.call
    for _ in range(6):
        if call is None:
            return False
        if call.name in ("std", "var", "std_mean", "var_mean"):
            return True
        if call.name in ("sub", "__sub__") and len(call.operands) == 2:
            made = [each.call.name for each in call.operands if each.call is not None]
            return all(
                name in ("max", "amax", "min", "amin", "values", "__getitem__", "aminmax")
                for name in made
            )
        call = call.operands[0].call if call.operands else None
    return False


@trip_rule("data/zero-variance", Rank.CAUSE)
def zero_variance(trip: Trip) -> Finding | None:
    """A normalization divided by a standard deviation of zero.

    What happened
        A column of the data is constant. Its standard deviation, or its range, is 0, and the
        normalization divides by it: 0 / 0 is NaN.
    Why it matters
        Every sample has NaN in that column, and the loss is NaN from the first step.
    How it is detected
        The NaN is traced to the division, whose divisor is a standard deviation or range of zero.
    How to fix it
        Replace a zero standard deviation by 1, or drop the column: it carries no information.
    When it stays silent
        If the divisor is not zero.
    Cost
        None until a loss or a gradient is not finite.
    """
    scenario = scenario_of(trip)
    if scenario is not None and scenario.call.phase != "forward" and _torch_spread(scenario):
        return _constant_column(scenario)
    source = source_of(trip)
    if source is None or not _divides_by_spread(source, trip):
        return None
    return _report_data(
        trip,
        "data/zero-variance",
        source,
        verdict="the data are divided by a standard deviation or range that is 0 or undefined"
        f"{_column(source)}",
        why="A constant column has a standard deviation of 0, and 0 / 0 is NaN. A single row has "
        "no standard deviation.",
        fix="Replace 0 by 1 before dividing (`std[std == 0] = 1`), or drop the column.",
    )


def _constant_column(scenario: Scenario) -> Finding | None:
    column = f", column {scenario.index[-1]}" if len(scenario.index) > 1 else ""
    scenario.reason = Reason(
        verdict=f"the data are divided by a standard deviation or range of 0{column}",
        why="A constant column has a standard deviation of 0, and 0 / 0 is NaN.",
        fix="Replace 0 before dividing (`std.clamp(min=eps)`), or drop the column.",
    )
    return forward_finding("data/zero-variance", scenario)


def _is_written(call: Call) -> bool:
    return is_deliberate(call) and bad_number(call) is None


def _written(scenario: Scenario) -> Finding | None:
    """`table[rows] = nan`: the program itself writes the value."""
    scenario.reason = Reason(
        verdict="NaN or Inf is written into the data",
        why="The program itself writes the value, and a step uses it like any other",
        fix="Drop or fill the marked values before a step uses them.",
    )
    return forward_finding("data/nonfinite", scenario)


@trip_rule("data/nonfinite")
def nonfinite(trip: Trip) -> Finding | None:
    """NaN or Inf is in the data.

    What happened
        A sample contains NaN or Inf when it leaves the loader, or the data contained it before the
        first step.
    Why it matters
        One such sample makes the loss of its batch NaN, and one update makes every weight NaN.
    How it is detected
        The NaN in the loss is traced through the replayed step to the batch, then to the sample,
        which is fetched again in a child process, and to the line of the dataset or of the
        preprocessing that made it.
    How to fix it
        Fix or drop the sample where it is created. `nan_to_num` in the model only hides it.
    When it stays silent
        NaN that is filtered, masked before use, or never reaches a weight.
    Cost
        None until a loss or a gradient is not finite.
    """
    scenario = scenario_of(trip)
    if scenario is not None and scenario.call.phase != "forward" and _is_written(scenario.call):
        return _written(scenario)
    source = source_of(trip)
    if source is None:
        return None
    sample = sample_of(source)
    places = []
    if sample is not None and sample.dataset_index is not None:
        places.append(f"sample {sample.dataset_index}")
    if isinstance(source.value.leaf, BatchLeaf) and source.value.leaf.path:
        places.append(f"batch{source.value.leaf.path}")
    if column := _column(source):
        places.append(column.removeprefix(", "))
    where = f" in {', '.join(places)}" if places else ""
    many = int((~torch.isfinite(source.content)).sum())
    return _report_data(
        trip,
        "data/nonfinite",
        source,
        verdict=f"the data contain {_number(source)}{where}",
        why=f"{many} of {source.content.numel()} elements {'is' if many == 1 else 'are'} already "
        "not finite when the step begins, before any operation of the step.",
        fix=f"{REMEDIES.get(operation_of(source.trail) or '', 'Fix the value at the origin')}, "
        "or drop the sample.",
    )
