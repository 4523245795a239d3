"""The way back from a value to where a property of it was born, and the walk that finds it."""

from __future__ import annotations

import ast
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from torch import nn

from whence.finding import Hop, Sample
from whence.lineage.constructors import attribute_size, counted_at, size_passed
from whence.lineage.following.calls import called_again
from whence.lineage.following.found import Found
from whence.lineage.following.trace import SourceTrace
from whence.lineage.grounds import ground_of
from whence.lineage.looking import Unknown, look
from whence.lineage.loops.remade import deviation_in_loop
from whence.lineage.properties import HasAxis, HasDtype, HasElement, Property, axis_source
from whence.source.classes import attribute_of, class_node
from whence.source.definitions import find_registration
from whence.source.spots import Spot
from whence.tape.batches import BatchLeaf
from whence.tape.tape import Call, Foreign, Value, flatten

if TYPE_CHECKING:
    from whence.tape.scene import Scene

LONGEST_WALK = 2_000


class Birth(Enum):
    CALL = auto()
    """A torch call made it so: a reshape, a cast, a creation."""
    LAYER = auto()
    """A layer's weights made it so; the spot is where the layer was built."""
    SOURCE = auto()
    """It came from outside torch; the spot is the expression that made it."""
    SAMPLE = auto()
    """A loader delivered it; the spot is in the code that makes a sample."""
    NUMBER = auto()
    """A Python number in a sample, which got its type when the batch was collated."""
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class Trail:
    """Plain data, so that it can come from a child process. `hops` lead from the birth to the symptom."""

    birth: Birth
    spot: Spot | None = None
    hops: tuple[Hop, ...] = ()
    op: str | None = None
    phase: str = "program"
    module: str | None = None
    step: int | None = None
    sample: Sample | None = None
    parts: tuple[int, ...] = field(default=())
    """For an axis put together from several (a flatten): their sizes."""
    counted: Spot | None = None
    """For an axis that a layer made: where the layer's size was computed."""
    sized: Spot | None = None
    """For an axis of a tensor that a module or a function makes for others: the call that says how long it is to be."""
    column: str = ""
    """For a number that was once in a table: the name of its column."""
    is_certain: bool = True
    """False where the birth is the only one that is known of, and nothing leads there."""


def trace(value: Value, prop: Property, scene: Scene) -> Trail:
    """Walk back over the tape, then through the source or the loader, to where the property was born."""
    hops: list[Hop] = []
    last_line: tuple[str, int] | None = None
    user: Call | None = None
    for _ in range(LONGEST_WALK):
        if isinstance(value.leaf, BatchLeaf):
            return _from_batch(value.leaf, value, prop, scene, hops)
        call = value.call
        if call is None:
            same = scene.tape.namesake(value.tensor) if value.tensor is not None else None
            if same is not None:
                value = same
                continue
            return _from_leaf(value, prop, scene, hops, user)
        if call.forgotten:
            # Updates change neither the size nor the type of a weight: it is as it was made, however long ago.
            is_kept = isinstance(prop, HasAxis | HasDtype) and _owner_of(value, scene) is not None
            return (
                _from_leaf(value, prop, scene, hops, user)
                if is_kept
                else Trail(Birth.UNKNOWN, hops=tuple(reversed(hops)))
            )
        carried = prop.carrier(call, value)
        if carried is None:
            return _born_in(call, value, prop, scene, hops)
        if call.site is not None and call.phase != "optimizer":
            spot = Spot.of_site(call.site)
            if (spot.file, spot.line) != last_line:
                hops.append(spot.hop(f"{call.name} returns {describe_value(value)}"))
                last_line = (spot.file, spot.line)
        value, prop = carried
        user = call
    return Trail(Birth.UNKNOWN, hops=tuple(reversed(hops)))


def describe_value(value: Value) -> str:
    return f"{tuple(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def _trail(call: Call, spot: Spot | None, birth: Birth, hops: list[Hop], scene: Scene) -> Trail:
    module = getattr(call.module, "module", None)
    return Trail(
        birth=birth if spot is not None else Birth.UNKNOWN,
        spot=spot,
        hops=tuple(reversed(hops)),
        op=call.name,
        phase=call.phase,
        module=scene.modules.path_of(module) if isinstance(module, nn.Module) else None,
        step=call.step,
    )


def _born_in(call: Call, value: Value, prop: Property, scene: Scene, hops: list[Hop]) -> Trail:
    if isinstance(prop, HasAxis):
        layer = _deciding_layer(call, value, prop)
        if layer is not None:
            stack = scene.modules.built_at(layer)
            if stack:
                hops.extend(
                    [Spot.of_site(call.site).hop(f"{call.name} returns {describe_value(value)}")]
                    if call.site
                    else []
                )
                counted = counted_at(
                    stack, 1, "out_channels" if hasattr(layer, "out_channels") else "out_features"
                )
                trail = _trail(call, Spot.of_site(stack[0]), Birth.LAYER, hops, scene)
                return replace(trail, phase="program", counted=counted)
    spot = Spot.of_site(call.site) if call.site is not None else None
    trail = _trail(call, spot, Birth.CALL, hops, scene)
    if isinstance(prop, HasAxis):
        sources = axis_source(call, value, prop.axis) or []
        if len(sources) > 1:
            return replace(trail, parts=tuple(operand.shape[axis] for operand, axis in sources))
    if (
        isinstance(prop, HasElement)
        and (named := _named_number(call, prop, scene)) is not None
        and spot is not None
    ):
        return replace(
            trail,
            birth=Birth.SOURCE,
            spot=named,
            hops=(spot.hop("written to the tensor here"), *reversed(hops)),
        )
    if (
        spot is not None
        and isinstance(prop, HasAxis)
        and _has_foreign(call)
        and call.phase != "forward"
    ):
        departed = deviation_in_loop(call.stack, tuple(value.shape), prop, scene.frames)
        if departed is not None:
            return replace(
                trail,
                birth=Birth.SOURCE,
                spot=departed.spot,
                hops=(*departed.hops, *reversed(hops)),
            )
    if spot is not None and call.site is not None and _has_foreign(call):
        node = call.site.node()
        if (
            isinstance(node, ast.Subscript)
            and isinstance(prop, HasAxis)
            and prop.axis == -len(value.shape)
        ):
            # As many rows as there are indices.
            node, prop = node.slice, HasAxis(-1, prop.size)
        if node is not None:
            found = _called_again(call, prop, scene)
            if found.spot is None:
                search = SourceTrace(prop, scene.frames, scene.worked_before)
                found = search.follow(node, ground_of(call.stack, scene.frames))
            if found.spot is not None:
                known = [
                    *hops,
                    *(
                        [spot.hop(f"{call.name} returns {describe_value(value)}")]
                        if found.spot != spot
                        else []
                    ),
                ]
                way = (*found.hops, *reversed(known))
                return replace(
                    trail, birth=Birth.SOURCE, spot=found.spot, hops=way, column=found.column
                )
    return trail


def _called_again(call: Call, prop: Property, scene: Scene) -> Found:
    """Where nothing is left of the function that made a tensor of it: the line within, as it is called once more where the program stands."""
    grounds = [ground_of(call.stack[depth:], scene.frames) for depth in range(len(call.stack))]
    depth = next(
        (
            depth
            for depth, each in enumerate(grounds)
            if each is not None and each.frame is not None
        ),
        0,
    )
    node = call.stack[depth].node() if depth and prop.shows_in_lines else None
    ground = grounds[depth] if depth else None
    if not isinstance(node, ast.Call) or ground is None:
        return Found()
    spot = called_again(SourceTrace(prop, scene.frames, scene.worked_before), node, ground)
    # What came with an argument is followed from its own place in the function, where more is known of it.
    return Found(spot) if isinstance(spot, Spot) else Found()


def _named_number(call: Call, prop: HasElement, scene: Scene) -> Spot | None:
    """Where a number that a call writes has its name from: `VOID = 255` of `mask.masked_fill(border, VOID)`."""
    node = call.site.node() if call.site is not None else None
    ground = ground_of(call.stack, scene.frames)
    if not isinstance(node, ast.Call) or ground is None or ground.frame is None:
        return None
    for given in (*node.args, *(each.value for each in node.keywords)):
        if isinstance(given, ast.Name | ast.Attribute):
            with suppress(Unknown):
                number = look(given, ground.frame)
                if type(number) in (int, float) and number == prop.value:
                    return (
                        SourceTrace(prop, scene.frames, scene.worked_before)
                        .follow(given, ground)
                        .spot
                    )
    return None


def _deciding_layer(call: Call, value: Value, prop: HasAxis) -> nn.Module | None:
    """The torch layer whose weight has the axis that the call's result has."""
    module = getattr(call.module, "module", None)
    if not isinstance(module, nn.Module) or not type(module).__module__.startswith("torch.nn"):
        return None
    if axis_source(call, value, prop.axis) != []:
        return None
    return module if any(True for _ in nn.Module.parameters(module, recurse=False)) else None


def _has_foreign(call: Call) -> bool:
    return (
        any(isinstance(each, Foreign) for each in flatten((call.args, call.kwargs)))
        or not call.operands
    )


def _from_leaf(
    value: Value, prop: Property, scene: Scene, hops: list[Hop], user: Call | None
) -> Trail:
    """A tensor that no call on the tape made: ask the source who holds it. `user` is the call that was given it."""
    tensor = value.tensor
    if tensor is None:
        return Trail(Birth.UNKNOWN, hops=tuple(reversed(hops)))
    owner = _owner_of(value, scene)
    if owner is not None:
        spot = where_built(*owner, scene)
        path = f"{scene.modules.path_of(owner[0])}.{owner[1]}"
        sized = (
            attribute_size(*owner, scene.modules.built_at(owner[0]), prop.axis)
            if isinstance(prop, HasAxis)
            else None
        )
        return Trail(
            Birth.LAYER if spot else Birth.UNKNOWN,
            spot,
            tuple(reversed(hops)),
            module=path,
            sized=sized,
        )
    found = SourceTrace(prop, scene.frames, scene.worked_before).follow_object(tensor)
    if found.spot is None and user is not None:
        found = _from_attribute(user, prop, scene)
    if found.spot is None:
        return Trail(Birth.UNKNOWN, hops=tuple(reversed(hops)))
    sized = (
        size_passed(*found.made, prop.axis)
        if found.made is not None and isinstance(prop, HasAxis)
        else None
    )
    return Trail(
        Birth.SOURCE, found.spot, (*found.hops, *reversed(hops)), sized=sized, column=found.column
    )


def _from_attribute(user: Call, prop: Property, scene: Scene) -> Found:
    """What an object of the program's holds, as it was read from it: `self.rows[pick]`."""
    node = user.site.node() if user.site is not None else None
    held = node.value if isinstance(node, ast.Subscript) else None
    ground = ground_of(user.stack, scene.frames) if isinstance(held, ast.Attribute) else None
    if held is None or ground is None:
        return Found()
    return SourceTrace(prop, scene.frames, scene.worked_before).follow(held, ground)


def _owner_of(value: Value, scene: Scene) -> tuple[nn.Module, str] | None:
    tensor = value.tensor
    return (
        (scene.modules.owner_of(tensor) or scene.modules.holder_of(tensor))
        if tensor is not None
        else None
    )


def where_built(module: nn.Module, name: str, scene: Scene) -> Spot | None:
    """Where a module's own tensor is made: `self.name = ...` in a class of the program's, else where the layer is built."""
    assigned = attribute_of(type(module), name)
    if assigned is not None:
        return assigned
    kind, filename = class_node(type(module))
    registered = find_registration(name, kind) if kind is not None else None
    if registered is not None:
        return Spot.of_node(filename, registered)
    stack = scene.modules.built_at(module)
    return Spot.of_site(stack[0]) if stack else None


def _from_batch(
    leaf: BatchLeaf, value: Value, prop: Property, scene: Scene, hops: list[Hop]
) -> Trail:
    # A sample is traced by a walk like this one: the two files need each other.
    from whence.lineage.datasets.samples import trace_into_batch

    inner = trace_into_batch(leaf, value, prop, scene)
    return replace(
        inner,
        hops=(*inner.hops, *reversed(hops)),
        phase="data" if inner.sample is not None else inner.phase,
    )


BORDERS = ("from_numpy", "as_tensor", "tensor(", "Tensor(")


def border(trail: Trail) -> Spot | None:
    """Where the data became a tensor, if that is on the trail."""
    for hop in reversed(trail.hops):
        if any(name in hop.code for name in BORDERS):
            spot = Spot.of_hop(hop)
            node = spot.node() if spot is not None else None
            calls = (
                [
                    each
                    for each in ast.walk(node)
                    if isinstance(each, ast.Call)
                    and any(name in ast.unparse(each.func) + "(" for name in BORDERS)
                ]
                if node is not None
                else []
            )
            return Spot.of_node(spot.filename, calls[0]) if spot is not None and calls else spot
    return trail.spot
