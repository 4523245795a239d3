"""Where a weight got its low precision."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from whence.ledgers.audit import Audit
from whence.ledgers.loop import Kind
from whence.ledgers.study import Study
from whence.lineage.trail import where_built
from whence.rules.telling import spot_at
from whence.source.spots import Spot
from whence.source.text import last_name, tree_of

WIDE = (torch.float32, torch.float64)


def where_narrowed(scene: Audit | Study, weight: torch.Tensor) -> Spot | None:
    """The cast of the owning module or of the weight, or its creation; None if unknown."""
    casts = [
        each for each in scene.loop.of(Kind.CAST) if each.detail["types"].get(id(weight)) in WIDE
    ]
    if casts:
        return spot_at(casts[-1].site)
    return _set_through_data(scene, weight) or _made_with(scene, weight)


def _set_through_data(scene: Audit | Study, weight: torch.Tensor) -> Spot | None:
    """`weight.data = weight.data.half()`: the data were still wide when last read."""
    for call in reversed(scene.tape.calls):
        given = call.operands[0] if call.name == "data.__get__" and call.operands else None
        if given is not None and given.tensor is weight:
            return spot_at(call.site) if given.dtype in WIDE else None
    return None


def _made_with(scene: Audit | Study, weight: torch.Tensor) -> Spot | None:
    """Where the layer or parameter is created with a dtype, or else where the default is set."""
    owner = scene.modules.owner_of(weight)
    made = where_built(*owner, scene) if owner is not None else None
    if owner is None or made is None:
        return None
    stack, put = scene.modules.built_at(owner[0]), scene.modules.registered_at(weight)
    if put and put[:1] != stack[:1]:
        # The weight was registered outside the layer's constructor, by load_state_dict(assign).
        return Spot.of_site(put[0])
    node = made.node()
    calls = (
        [each for each in ast.walk(node) if isinstance(each, ast.Call)] if node is not None else []
    )
    if any(keyword.arg == "dtype" for each in calls for keyword in each.keywords):
        return made
    files = [made.filename, *(site.filename for site in stack)]
    files += [frame.f_code.co_filename for frame in scene.frames]
    return next(_defaults(dict.fromkeys(files)), made)


def _defaults(files: dict[str, None]) -> Iterator[Spot]:
    """`torch.set_default_dtype(torch.bfloat16)`, except calls that restore a wide dtype."""
    for filename in files:
        for node in ast.walk(tree_of(filename) or ast.Module([], [])):
            match node:
                case ast.Call(
                    func=ast.Attribute(attr="set_default_dtype") | ast.Name(id="set_default_dtype"),
                    args=[given],
                ):
                    if last_name(given) not in ("float32", "float64", "float", "double"):
                        yield Spot.of_node(filename, node)
