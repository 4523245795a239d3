"""Replay: run a recorded pass again with its own leaves or another pass's, checking every call.

The program is not touched. Weights and batches are replaced by tensors that share their memory and
have their own gradients. What the pass changes in place is copied first, and the random state is
restored afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch

from whence.devices import restore_random_state
from whence.tape.batches import BatchLeaf
from whence.tape.native import run_native, runs_only_torch
from whence.tape.passes import Mark, Pass, Score, delivered
from whence.tape.quiet import Untouched
from whence.tape.readable import is_readable
from whence.tape.slices import BACKWARDS, is_random, needed_calls
from whence.tape.tape import Call, Foreign, Tape, Value, flatten, map_leaves, node_of

Resolve = Callable[[Value], torch.Tensor]
Alter = Callable[[Call, Any, Any], tuple[Any, Any]]


class Unreplayable(Exception):
    """An input of the pass is gone, or was never seen."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls to run, in order, and where to find their inputs."""

    calls: tuple[Call, ...]
    resolve: Resolve
    marks: tuple[Mark, ...]
    own: bool
    """True if the calls are the step's own, and not those of an earlier representative step."""
    recorded_at: int
    is_given: Callable[[Value], bool]
    sizes: Mapping[int, int] = field(default_factory=dict)
    """Sizes in the recorded step, and the sizes in this step that replace them."""


@dataclass(eq=False, slots=True)
class Run:
    """The results of a replay."""

    contents: dict[Value, torch.Tensor] = field(default_factory=dict)
    troubles: dict[Value, str] = field(default_factory=dict)
    """For each value that was not finite when it was computed: "nan" or "inf"."""
    leaves: dict[Value, torch.Tensor] = field(default_factory=dict)
    newest: list[tuple[int, Call]] = field(default_factory=list)
    """Autograd's number of the newest node after each call."""
    raised: tuple[Call, Exception] | None = None

    def call_of(self, sequence: int) -> Call | None:
        return next((call for number, call in self.newest if number >= sequence), None)


def trouble_in(tensor: Any) -> str:
    """Return "nan" if an element is NaN, else "inf" if one is Inf, else "".

    Empty also if the values cannot be read.
    """
    if not is_readable(tensor) or not (tensor.is_floating_point() or tensor.is_complex()):
        return ""
    tensor = tensor.detach()
    if tensor.layout is not torch.strided:
        tensor = (
            tensor.coalesce()._values() if tensor.layout is torch.sparse_coo else tensor.values()
        )
    if tensor.numel() == 0 or bool(torch.isfinite(tensor).all()):
        return ""
    return "nan" if bool(torch.isnan(tensor).any()) else "inf"


def plan_for(
    book_calls: Sequence[Call],
    now: Pass,
    tape: Tape,
    targets: Sequence[Value],
    *,
    backward: bool,
    draws: bool = True,
) -> Plan:
    """Return the plan of the current recorded pass, up to its targets."""

    def resolve(value: Value) -> torch.Tensor:
        if value in now.before:
            return now.before[value]
        tensor = now.held.get(value)
        if tensor is None:
            tensor = value.tensor
        if tensor is None:
            raise Unreplayable(f"a tensor {tuple(value.shape)} is gone")
        if tape.known_value(tensor) not in (value, None) and not tensor.requires_grad:
            raise Unreplayable(f"a tensor {tuple(value.shape)} has changed since")
        return tensor

    def is_given(value: Value) -> bool:
        if now.is_leaf(value) or value in now.before:
            return True
        # A weight is used with its current value, even if the program has changed it in this pass.
        # The first pass includes the program's whole setup, so there everything without a graph is
        # used with its current value.
        tensor = value.tensor
        is_current = tensor is not None and tape.known_value(tensor) is value
        return is_current and (is_weight(value) or (now.first == 0 and not value.requires_grad))

    calls = needed_calls(book_calls, targets, is_given, backward=backward, draws=draws)
    return Plan(calls, resolve, tuple(now.marks), own=True, recorded_at=now.step, is_given=is_given)


def is_weight(value: Value) -> bool:
    tensor = value.tensor
    return tensor is not None and tensor.is_leaf and tensor.requires_grad


def plan_from(
    score: Score,
    now: Pass,
    frames: Sequence[FrameType],
    targets: Sequence[Value],
    *,
    backward: bool,
) -> Plan:
    """Return the plan of an unrecorded pass, based on a score."""
    entered = {
        value: (n, k)
        for n, entry in enumerate(score.entries)
        for k, value in enumerate(entry)
        if value is not None
    }
    given: dict[Value, torch.Tensor] = {}

    def find(value: Value) -> torch.Tensor | None:
        if isinstance(value.leaf, BatchLeaf) and value.leaf.batch in score.batches:
            return delivered(now.deliveries, score.batches.index(value.leaf.batch), value.leaf.path)
        if value in entered:
            number, place = entered[value]
            if number < len(now.entries) and place < len(now.entries[number]):
                return now.entries[number][place]
        if value in score.handles:
            return (
                score.handles[value].follow(frames)
                if now.variables is None
                else now.variables.get(value)
            )
        return None

    for value in {
        *score.handles,
        *entered,
        *(each for call in score.calls for each in call.operands),
    }:
        tensor = find(value)
        if tensor is not None and tensor.dim() == len(value.shape) and tensor.dtype == value.dtype:
            given[value] = tensor

    def is_given(value: Value) -> bool:
        call = value.call
        return (
            value in given
            or call is None
            or call.number < score.first
            or call.phase in ("data", "optimizer")
        )

    def resolve(value: Value) -> torch.Tensor:
        if value in given:
            return given[value]
        tensor = value.tensor
        if tensor is None or (value.call is not None and value.call.has_foreign):
            raise Unreplayable(f"a tensor {tuple(value.shape)} of this step is unknown")
        return now.copies.get(id(tensor), tensor)

    calls = needed_calls(score.calls, targets, is_given, backward=backward)
    marks = _aligned(score.marks, now.marks)
    sizes = _other_sizes(given)
    return Plan(
        calls, resolve, marks, own=False, recorded_at=score.step, is_given=is_given, sizes=sizes
    )


def _other_sizes(given: Mapping[Value, torch.Tensor]) -> dict[int, int]:
    """Return the recorded sizes that differ in this pass, such as a longer sequence.

    Numbers equal to such a size, and to no other, are replaced. That is a guess, which the loss
    confirms or refutes.
    """
    found: dict[int, set[int]] = {}
    for value, tensor in given.items():
        for before, now in zip(value.shape, tensor.shape, strict=True):
            found.setdefault(before, set()).add(now)
    return {
        before: now.pop() for before, now in found.items() if len(now) == 1 and before not in now
    }


def _aligned(recorded: Sequence[Mark], now: Sequence[Mark]) -> tuple[Mark, ...]:
    """Return the marks of the current pass at the points where the score has similar ones."""
    seen: dict[str, int] = {}
    found: list[Mark] = []
    for mark in recorded:
        ordinal = seen.get(mark.kind, 0)
        seen[mark.kind] = ordinal + 1
        like = [each for each in now if each.kind == mark.kind]
        if ordinal < len(like):
            found.append(Mark(mark.kind, mark.number, like[ordinal].state))
    return tuple(found)


def leaving_no_trace() -> Untouched:
    """Run PyTorch's own operations with gradients, and leave everything as it was."""
    return Untouched(gradients=True)


def replay(
    plan: Plan,
    *,
    substitute: Mapping[Value, torch.Tensor] | None = None,
    alter: Alter | None = None,
    amend: Callable[[Call, Run], None] | None = None,
    at_backward: Callable[[Call, Run], None] | None = None,
    until: Call | None = None,
    during: AbstractContextManager[Any] | None = None,
    with_hooks: bool = False,
    only: Collection[Value] | None = None,
    gradients: bool = True,
    towards: Collection[Value] = (),
) -> Run:
    """Run a plan.

    `substitute` replaces leaves by other tensors, `alter` changes the arguments of a call, and
    `amend` its result. `until` is the first call that is not run. The weights' own hooks are the
    program's code: they run only `with_hooks`, which requires a child process. With `only`, these
    values are kept, and all others are freed unchecked after their last use. Without `gradients`
    there is no graph. The graph `towards` some values holds no gradients of weights, and so needs
    few of the tensors in between.
    """
    player = _Player(
        plan,
        substitute=substitute or {},
        alter=alter,
        amend=amend,
        at_backward=at_backward,
        until=until,
        with_hooks=with_hooks,
        only=only,
        gradients=gradients,
        towards=towards,
    )
    with leaving_no_trace(), during or nullcontext(), ExitStack() as precision:
        player.play(precision)
    return player.run


@dataclass(eq=False, slots=True, kw_only=True)
class _Player:
    """One run of a plan."""

    plan: Plan = field(kw_only=False)
    substitute: Mapping[Value, torch.Tensor]
    alter: Alter | None
    amend: Callable[[Call, Run], None] | None
    at_backward: Callable[[Call, Run], None] | None
    until: Call | None
    with_hooks: bool
    only: Collection[Value] | None
    gradients: bool
    towards: Collection[Value]
    run: Run = field(default_factory=Run)
    _copied: frozenset[Value] = frozenset()
    _copied_memory: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._copied = frozenset(value for call in self.plan.calls for value in call.changed)
        self._copied_memory = frozenset(value.storage for value in self._copied if value.storage)

    def play(self, precision: ExitStack) -> None:
        for call in self.plan.calls:
            if not runs_only_torch(call.func):
                raise Unreplayable(
                    f"{call.name} is not PyTorch's own: it runs only in a child process"
                )
        ends = _last_uses(self.plan.calls) if self.only is not None else {}
        marks = list(self.plan.marks)
        autocast = None
        for call in self.plan.calls:
            if self.until is not None and call.number > self.until.number:
                return
            while marks and marks[0].number <= call.number:
                restore_random_state(marks.pop(0).state)
            if call.autocast != autocast:
                precision.close()
                autocast = call.autocast
                if autocast is not None:
                    precision.enter_context(torch.autocast(autocast[0], dtype=autocast[1]))
            if not self._make(call):
                return
            for value in ends.get(call.number, ()):
                if value not in self.only:  # type: ignore[operator]
                    self.run.contents.pop(value, None)

    def _make(self, call: Call) -> bool:
        """Make a call again; return False if the run ends with it."""
        try:
            args, kwargs = (
                map_leaves(self._argument, call.args),
                map_leaves(self._argument, call.kwargs),
            )
        except Unreplayable:
            if call.name not in BACKWARDS and is_random(call):
                return True
            raise
        if self.alter is not None:
            args, kwargs = self.alter(call, args, kwargs)
        if call is self.until:
            return False
        if self.at_backward is not None and call.name in BACKWARDS:
            self.at_backward(call, self.run)
        with torch.set_grad_enabled(call.grad_mode and self.gradients):
            try:
                result = run_native(call.func, args, kwargs)
            except Exception as exception:
                self.run.raised = call, exception.with_traceback(None)
                return False
        self._take_in(call, result)
        return True

    def _take_in(self, call: Call, result: Any) -> None:
        run = self.run
        _enter(run, call, result, self.plan.is_given)
        for value in call.outputs:
            if value in self.towards and value in run.contents:
                run.contents[value] = _differentiable(run.contents[value])
            elif (
                value.requires_grad
                and self.gradients
                and not self.towards
                and value in run.contents
            ):
                _as_leaf(run.contents[value])
        if self.only is None:
            _inspect(run, call)
        if self.amend is not None:
            self.amend(call, run)

    def _argument(self, thing: Any) -> Any:
        if isinstance(thing, Value):
            return self._content(thing)
        if isinstance(thing, Foreign):
            raise Unreplayable(thing.description)
        return self.plan.sizes.get(thing, thing) if type(thing) is int else thing

    def _content(self, value: Value) -> torch.Tensor:
        """Return an input of a call: a computed value, or a stand-in for a leaf.

        A stand-in has its own gradient.
        """
        run = self.run
        if value in run.contents:
            return run.contents[value]
        live = self.substitute.get(value)
        if live is None:
            live = self.plan.resolve(value)
        if not is_readable(live):
            raise Unreplayable(f"a tensor {tuple(value.shape)} whose values cannot be read")
        tensor = live.detach()
        if value in self._copied or value.storage in self._copied_memory:
            tensor = tensor.clone()
        if self.towards:
            tensor = _differentiable(tensor) if value in self.towards else tensor
        elif value.requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_(True)
            if self.with_hooks:
                _adopt_hooks(live, tensor)
        run.contents[value] = tensor
        if self.only is None:
            run.leaves[value] = tensor
            if trouble := trouble_in(tensor):
                run.troubles[value] = trouble
        return tensor


def _as_leaf(tensor: torch.Tensor) -> None:
    """Make a result without a graph require a gradient, as `requires_grad_` did."""
    if (
        tensor.is_leaf
        and not tensor.requires_grad
        and (tensor.is_floating_point() or tensor.is_complex())
    ):
        tensor.requires_grad_(True)


def _differentiable(tensor: torch.Tensor) -> torch.Tensor:
    """Return a writable copy that requires a gradient."""
    with torch.enable_grad():
        return tensor.detach().requires_grad_().clone()


def _last_uses(calls: Sequence[Call]) -> dict[int, list[Value]]:
    """Return, by call number, the values that no later call uses."""
    last = {value: call.number for call in calls for value in (*call.outputs, *call.operands)}
    found: dict[int, list[Value]] = {}
    for value, number in last.items():
        found.setdefault(number, []).append(value)
    return found


def _adopt_hooks(live: torch.Tensor, stand_in: torch.Tensor) -> None:
    for hook in (getattr(live, "_backward_hooks", None) or {}).values():
        stand_in.register_hook(hook)  # type: ignore[no-untyped-call]
    for hook in (getattr(live, "_post_accumulate_grad_hooks", None) or {}).values():
        stand_in.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]


def _enter(run: Run, call: Call, result: Any, is_given: Callable[[Value], bool]) -> None:
    operands = [run.contents[value] for value in call.operands if value in run.contents]
    for before, after in zip(call.changed, call.outputs, strict=False):
        if before in run.contents:
            run.contents[after] = run.contents[before]
    made = call.outputs[len(call.changed) :]
    results = [
        each
        for each in flatten(result)
        if isinstance(each, torch.Tensor) and not any(each is operand for operand in operands)
    ]
    # A draw that was repeated only to advance the random state does not replace an input of the
    # pass.
    run.contents.update(
        (value, each) for value, each in zip(made, results, strict=False) if not is_given(value)
    )


def _inspect(run: Run, call: Call) -> None:
    for value in call.outputs:
        tensor = run.contents.get(value)
        if tensor is None:
            continue
        if trouble := trouble_in(tensor):
            run.troubles[value] = trouble
        node = node_of(tensor)
        if node is not None:
            run.newest.append((node._sequence_nr(), call))


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors are equal bit for bit; any NaN equals any other."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    one, other = one.detach(), other.detach()
    return bool(((one == other) | ((one != one) & (other != other))).all())
