"""The tape: which functions were called, with which arguments, from where."""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from whence.devices import kinds
from whence.source.sites import Site
from whence.tape.batches import Batch, BatchLeaf
from whence.tape.readable import is_readable
from whence.torch_internals import forced_eager, next_node_number

MOST_CALLS = 20_000
MOST_MARKS = 256
MOST_ARRIVED = 2
"""Each holds the indices of a batch; more of them would not stay in the processor's cache."""
Arrival = tuple[Batch, Sequence[str], list[weakref.ref[torch.Tensor]]]
"""A batch that a loader delivered, with the paths and references of its tensors."""

OUT_OF_TORCH: Final = frozenset(
    {"item", "tolist", "numpy", "__array__", "__float__", "__int__", "__bool__"}
)

# Calls that are of interest although they return no tensor.
NOTABLE: Final = frozenset({"backward", "requires_grad_", "requires_grad.__set__", "data.__set__"})


@dataclass(eq=False, repr=False, slots=True)
class Value:
    """A tensor at one point of the program.

    An in-place change makes a new value of the same tensor.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    storage: int
    call: Call | None
    ref: weakref.ref[torch.Tensor] | None
    leaf: object | None = None
    """The origin of a value without a call, such as the batch that a loader delivered."""

    @property
    def tensor(self) -> torch.Tensor | None:
        return self.ref() if self.ref is not None else None

    @property
    def numel(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.numel * self.dtype.itemsize

    def __repr__(self) -> str:
        origin = self.call.name if self.call is not None else "outside"
        return f"<{self.shape} {self.dtype} from {origin}>"


@dataclass(frozen=True, slots=True)
class Foreign:
    """A description of an operand that is neither a tensor nor a constant; it is not kept."""

    kind: str
    description: str
    identity: int
    base: tuple[int, ...] = ()
    """For an array that shares another array's memory: its shape as rows of that array."""
    numbers: tuple[int, ...] = ()
    """The contents of a short integer sequence, which may be the sample indices of a batch."""


@dataclass(eq=False, repr=False, slots=True)
class Call:
    """One torch call.

    `args` and `kwargs` are as passed, with a Value in place of each tensor.
    """

    number: int
    func: Callable[..., Any]
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    stack: tuple[Site, ...]
    module: object | None
    step: int
    phase: str
    grad_mode: bool
    autocast: tuple[str, torch.dtype] | None
    inner: bool = False
    """Made within another call on the tape: by a custom Function, or by backward."""
    has_foreign: bool = False
    outputs: tuple[Value, ...] = ()
    changed: tuple[Value, ...] = ()
    """Values as they were before this call changed them in place."""
    first_node: int = 0
    """Autograd's number for the first node that did not exist when this call began."""
    sequence: int = -1
    """Autograd's number for the newest node this call made."""
    forgotten: bool = False
    operands: tuple[Value, ...] = field(default=())

    def __repr__(self) -> str:
        return f"<call {self.number} {self.name}>"

    @property
    def site(self) -> Site | None:
        return self.stack[0] if self.stack else None

    @property
    def results(self) -> tuple[Value, ...]:
        """Return what the call returned, without its in-place changes, such as running averages."""
        return self.outputs[len(self.changed) :] or self.outputs


@dataclass(eq=False, slots=True)
class Cut:
    """Values seen by a cast from float to integer: those with fractions, and an example."""

    seen: int = 0
    lost: int = 0
    example: float = 0.0
    coarse: int = 0
    """Integers above the largest one up to which the float type represents every integer."""
    largest: float = 0.0
    call: Call | None = None
    """The first cast with such values."""
    low: float = math.inf
    high: float = -math.inf

    def count(self, numbers: Sequence[float]) -> None:
        """Count the values that were cast."""
        known = [each for each in numbers if math.isfinite(each)]
        lost = [each for each in known if each != math.trunc(each)]
        self.seen += len(numbers)
        self.lost += len(lost)
        self.example = lost[0] if lost else self.example
        self.low, self.high = min([self.low, *known]), max([self.high, *known])


CASTS: Final = frozenset({"long", "int", "short", "to", "type", "type_as", "char"})
BLENDS: Final = frozenset({"interpolate", "grid_sample"})
WRITES: Final = frozenset({"__setitem__", "copy_"})
"""These cast their operand to the destination's dtype."""


class CustomFunction:
    """A custom autograd Function, to be applied as a whole."""

    def __init__(self, kind: type, apply: Callable[..., Any]) -> None:
        self.__name__ = kind.__name__
        self.kind = kind
        self._apply = apply

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._apply(self.kind, *args, **kwargs)


class CompiledRegion:
    """A module or function that torch.compile runs as one piece.

    A replay runs it eagerly, on the weights it receives.
    """

    def __init__(self, target: Any) -> None:
        self.__name__ = getattr(target, "__name__", type(target).__name__)
        self._target = weakref.ref(target)

    def __call__(
        self, weights: dict[str, torch.Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        target = self._target()
        if target is None:
            raise RuntimeError("the compiled function is gone")
        with forced_eager():
            if isinstance(target, torch.nn.Module):
                return torch.func.functional_call(target, weights, args, kwargs)
            return target(*args, **kwargs)


def operation_name(func: Callable[..., Any]) -> str:
    """Return the common name: `linear`, `cross_entropy`, `grad.__set__`."""
    name = getattr(func, "__name__", type(func).__name__)
    if name in ("__get__", "__set__", "__delete__"):
        return f"{getattr(getattr(func, '__self__', None), '__name__', '?')}.{name}"
    return str(name)


def flatten(tree: Any) -> Iterator[Any]:
    """Return the leaves of nested tuples, lists and dicts."""
    if isinstance(tree, tuple | list):
        for each in tree:
            yield from flatten(each)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from flatten(each)
    else:
        yield tree


BRANCHES: Final = (tuple, list, dict)
MOST_NUMBERS: Final = 1024


def map_leaves(function: Callable[[Any], Any], tree: Any) -> Any:
    """Return the same tree with each leaf replaced.

    Named tuples and unusual containers become plain ones.
    """
    if isinstance(tree, tuple | list):
        # Nearly all trees are flat: this makes one call per leaf and none per container check.
        found = [
            map_leaves(function, each) if isinstance(each, BRANCHES) else function(each)
            for each in tree
        ]
        return tuple(found) if isinstance(tree, tuple) else found
    if isinstance(tree, dict):
        return {
            key: map_leaves(function, each) if isinstance(each, BRANCHES) else function(each)
            for key, each in tree.items()
        }
    return function(tree)


CONSTANTS = (int, float, complex, bool, str, bytes, type(None), slice, type(...), torch.dtype,
             torch.device, torch.Size, torch.memory_format, torch.layout)  # fmt: skip


ARRAYS: Final = frozenset({"numpy", "pandas", "jax", "jaxlib"})


def _describe(thing: Any) -> Any:
    if isinstance(thing, (*CONSTANTS, type)):
        return thing
    described = type(thing).__name__
    if type(thing).__module__.partition(".")[0] in ARRAYS:
        # Reading an attribute of any other object may run its code.
        if getattr(thing, "ndim", 1) == 0:
            return thing
        shape = getattr(thing, "shape", None)
        described += f" {tuple(shape)} {getattr(thing, 'dtype', None)}" if shape is not None else ""
    return Foreign(type(thing).__name__, described, id(thing), _base_of(thing), _numbers_of(thing))


def _base_of(array: Any) -> tuple[int, ...]:
    """Return the shape of an array's memory as rows of the array that owns it."""
    if (type(array).__module__, type(array).__name__) != ("numpy", "ndarray") or type(
        array.base
    ) is not type(array):
        return ()
    base, row = array.base, array.base.shape[1:]
    if (
        not array.size
        or not array.flags.c_contiguous
        or not base.flags.c_contiguous
        or base.dtype != array.dtype
    ):
        return ()
    size = math.prod(row)
    begin = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    if array.size % size or begin % (size * array.itemsize):
        return ()
    return (array.size // size, *row) if array.size > size or array.ndim == base.ndim else row


def _numbers_of(array: Any) -> tuple[int, ...]:
    if (type(array).__module__, type(array).__name__) != (
        "numpy",
        "ndarray",
    ) or array.dtype.kind not in "iu":
        return ()
    return tuple(array.tolist()) if array.ndim == 1 and array.size <= MOST_NUMBERS else ()


class Tape:
    """A bounded list of calls, and the current value of each live tensor."""

    def __init__(self, most_calls: int = MOST_CALLS) -> None:
        self.calls: deque[Call] = deque()
        self.most_calls = most_calls
        self.count = 0
        self.has_gaps = False
        """True once a call was not put on the tape."""
        self.depth = 0
        """The number of enclosing calls that are on the tape as one."""
        self._values: dict[int, Value] = {}
        self._dead: list[Any] = []
        """Tensors freed since the last check. A Python callback would run wherever a tensor is
        freed, and a signal arriving in it would be lost. So a C method appends to this list."""
        self._arrived: deque[Arrival] = deque()
        """The last batches, until one of their tensors is looked up."""
        self._marks: dict[int, tuple[weakref.ref[torch.Tensor], Batch, str]] = {}
        """Tensors of batches that have no value yet, by identity: the batch, and the path in it."""
        self._most_marks = MOST_MARKS
        self.cuts: dict[Site, Cut] = {}
        """What casts from float to integer have lost, by site."""
        self.blends: dict[tuple[Site, ...], float] = {}
        """Where integers were interpolated, and one of the resulting values."""
        self.copies: dict[Value, torch.Tensor] = {}
        """Contents of some values that may be freed or changed since."""

    def note_cut(self, call: Call) -> None:
        """Note whether a successful call dropped fractions.

        For a write into another tensor, the last operand is the source.
        """
        if (
            call.site is None
            or not call.outputs
            or not call.operands
            or call.outputs[0].dtype.is_floating_point
        ):
            return
        given = call.operands[-1 if call.name in WRITES else 0]
        tensor = given.tensor
        if (
            not is_readable(tensor)
            or not given.dtype.is_floating_point
            or call.outputs[0].dtype is torch.bool
        ):
            return
        assert tensor is not None
        numbers = tensor.detach().reshape(-1)
        finite = numbers[torch.isfinite(numbers)]
        lost = finite[finite != finite.trunc()]
        cut = self.cuts.setdefault(call.site, Cut())
        cut.seen += numbers.numel()
        cut.lost += lost.numel()
        if lost.numel():
            cut.example = float(lost[0])
            cut.low, cut.high = (
                min(cut.low, float(finite.min())),
                max(cut.high, float(finite.max())),
            )
        beyond = numbers[
            (numbers.abs() > 2 / torch.finfo(numbers.dtype).eps) & torch.isfinite(numbers)
        ]
        if beyond.numel():
            cut.coarse += beyond.numel()
            cut.largest = max(cut.largest, float(beyond.abs().max()))
            cut.call = cut.call or call

    def note_blend(self, call: Call) -> None:
        """Note whether a successful resize made fractions from integers."""
        given, made = (each[0].tensor if each else None for each in (call.operands, call.outputs))
        if call.site is None or not is_readable(given) or not is_readable(made):
            return
        assert given is not None
        assert made is not None
        if not given.is_floating_point():
            return
        between = made.detach()[made.detach() != made.detach().trunc()]
        if between.numel() and bool((given == given.trunc()).all()):
            self.blends[call.stack] = float(between[0])

    def value_of(self, tensor: torch.Tensor) -> Value:
        """Return the current value of a live tensor; make a leaf if the tape has not seen it."""
        return self.known_value(tensor) or self._enter(tensor, None)

    def known_value(self, tensor: torch.Tensor) -> Value | None:
        while self._arrived:
            self._mark_arrival(self._arrived.popleft())
        known = self._values.get(id(tensor))
        if known is not None and known.tensor is tensor:
            return known
        mark = self._marks.pop(id(tensor), None)
        if mark is None or mark[0]() is not tensor:
            return None
        value = self._enter(tensor, None)
        value.leaf = BatchLeaf(mark[1], mark[2])
        return value

    def namesake(self, tensor: torch.Tensor) -> Value | None:
        """Return the value of another tensor with the same memory.

        `Variable(x)` makes a new tensor, and no mode sees it.
        """
        storage, shape = storage_of(tensor), _shape_of(tensor)
        for value in list(self._values.values()):
            if (
                value.storage != storage
                or value.shape != shape
                or (value.call is None and value.leaf is None)
            ):
                continue
            other = value.tensor
            if other is not None and other is not tensor and other.data_ptr() == tensor.data_ptr():
                return value
        return None

    def _enter(self, tensor: torch.Tensor, call: Call | None) -> Value:
        if self._dead:
            self._forget_dead()
        key = id(tensor)
        value = Value(
            shape=_shape_of(tensor),
            dtype=tensor.dtype,
            device=tensor.device,
            requires_grad=tensor.requires_grad,
            storage=storage_of(tensor),
            call=call,
            ref=weakref.KeyedRef(tensor, self._dead.append, key),
        )
        self._values[key] = value
        return value

    def _forget_dead(self) -> None:
        while self._dead:
            reference: weakref.KeyedRef[int, torch.Tensor] = self._dead.pop()
            held = self._values.get(reference.key)
            if held is not None and held.ref is reference:
                del self._values[reference.key]

    def begin(
        self,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        stack: tuple[Site, ...],
        module: object | None,
        step: int,
        phase: str,
        tensors: list[torch.Tensor] | None = None,
    ) -> Call:
        """Make the entry of a call that is about to run, or that has just raised.

        Its tensors are added to `tensors`.
        """
        operands: list[Value] = []
        foreign = False

        def keep(thing: Any) -> Any:
            nonlocal foreign
            if isinstance(thing, torch.Tensor):
                value = self.value_of(thing)
                operands.append(value)
                if tensors is not None:
                    tensors.append(thing)
                return value
            described = _describe(thing)
            foreign = foreign or isinstance(described, Foreign)
            return described

        call = Call(
            number=self.count,
            func=func,
            name=operation_name(func),
            args=map_leaves(keep, args),
            kwargs=map_leaves(keep, kwargs),
            stack=stack,
            module=module,
            step=step,
            phase=phase,
            grad_mode=torch.is_grad_enabled(),
            autocast=_autocast(),
            first_node=next_node_number(),
        )
        call.operands = tuple(operands)
        call.inner = self.depth > 0
        call.has_foreign = foreign
        return call

    def finish(self, call: Call, result: Any, changed: list[torch.Tensor]) -> None:
        """Enter a call's results and in-place changes; drop the call if it has neither."""
        if call.name in ("requires_grad_", "requires_grad.__set__"):
            for value in call.operands:
                if (tensor := value.tensor) is not None:
                    value.requires_grad = tensor.requires_grad
        outputs: list[Value] = []
        before = tuple(self.value_of(tensor) for tensor in changed)
        for tensor in changed:
            outputs.append(self._enter(tensor, call))
            _note_node(call, tensor)
        for thing in flatten(result):
            if isinstance(thing, torch.Tensor) and not any(thing is each for each in changed):
                known = self.known_value(thing)
                if known is not None and (known in call.operands or call.name.endswith(".__get__")):
                    # A call that returns its input, or an existing attribute, makes nothing new.
                    continue
                outputs.append(self._enter(thing, call))
                _note_node(call, thing)
        if not outputs and call.name not in OUT_OF_TORCH and call.name not in NOTABLE:
            return
        call.outputs, call.changed = tuple(outputs), before
        self.calls.append(call)
        call.number = self.count
        self.count += 1
        if len(self.calls) > self.most_calls:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        _forget(self.calls.popleft())

    def forget_between(self, first: int, end: int) -> None:
        """Drop the calls with these numbers, unless one of their results is still in use."""
        within = [call for call in self.calls if first <= call.number < end]
        if any(
            self._is_in_use(value)
            for call in within
            if call.phase != "optimizer"
            for value in call.outputs
        ):
            return
        for call in within:
            _forget(call)
        self.calls = deque(call for call in self.calls if not call.forgotten)

    def _is_in_use(self, value: Value) -> bool:
        tensor = value.tensor
        return tensor is not None and self._values.get(id(tensor)) is value

    def batch_arrived(
        self, batch: Batch, paths: Sequence[str], tensors: Sequence[torch.Tensor]
    ) -> None:
        """Note a batch that a loader delivered.

        Its tensors are entered only when they are needed.
        """
        self._arrived.append((batch, paths, [weakref.ref(each) for each in tensors]))
        if len(self._arrived) > MOST_ARRIVED:
            self._mark_arrival(self._arrived.popleft())

    def _mark_arrival(self, arrival: Arrival) -> None:
        """Mark the tensors of a batch. Most are gone, because the program has moved on."""
        batch, paths, refs = arrival
        for path, each in zip(paths, refs, strict=True):
            leaf = each()
            if leaf is not None and id(leaf) in self._values:
                self._mark(leaf, BatchLeaf(batch, path))
            elif leaf is not None:
                self._marks[id(leaf)] = each, batch, path
        if len(self._marks) > self._most_marks:
            self._marks = {key: mark for key, mark in self._marks.items() if mark[0]() is not None}
            self._most_marks = MOST_MARKS + 2 * len(self._marks)

    def _mark(self, tensor: torch.Tensor, leaf: BatchLeaf) -> None:
        value = self.value_of(tensor)
        if value.shape != _shape_of(tensor):
            # Built empty, and given its memory by calls that modes do not see: a batch from a
            # worker.
            value = self._enter(tensor, None)
        value.leaf = leaf

    def earlier_at(self, call: Call) -> Call | None:
        """Return the last successful call with the same site, operation and module."""
        for each in reversed(self.calls):
            if (
                each.name == call.name
                and each.site == call.site
                and _module(each) is _module(call)
                and each is not call
            ):
                return each
        return None

    def earlier_like(self, call: Call) -> Call | None:
        """Return the last successful call of the same operation and module, at any site."""
        for each in reversed(self.calls):
            if (
                each.name == call.name
                and _module(each) is _module(call)
                and each is not call
                and each.operands
            ):
                return each
        return None

    def all_earlier_at(self, call: Call) -> Iterator[Call]:
        """Return all successful calls at the same place, newest first."""
        for each in reversed(self.calls):
            if each.name == call.name and each.site == call.site and each is not call:
                yield each


def _forget(call: Call) -> None:
    call.args, call.kwargs, call.operands, call.changed = (), {}, (), ()
    call.forgotten = True


def _autocast() -> tuple[str, torch.dtype] | None:
    for device in ("cpu", *kinds()):
        if torch.is_autocast_enabled(device):
            return device, torch.get_autocast_dtype(device)
    return None


def _module(call: Call) -> object | None:
    return getattr(call.module, "module", None)


def _shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    try:
        return tuple(tensor.shape)
    except RuntimeError:
        # A parameter of a lazy module that has not received an input yet.
        return ()


def storage_of(tensor: torch.Tensor) -> int:
    """Return an identity of a tensor's memory, shared by its views.

    0 if it has none (sparse, functorch).
    """
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError, ValueError):
        return 0


def node_of(tensor: torch.Tensor) -> Any:
    """Return the autograd node that made a tensor, or None."""
    try:
        return tensor.grad_fn
    except RuntimeError:
        # A view made under no_grad whose base was changed since: PyTorch refuses to answer.
        return None


def _note_node(call: Call, tensor: torch.Tensor) -> None:
    node = node_of(tensor)
    if node is not None:
        call.sequence = max(call.sequence, node._sequence_nr())
