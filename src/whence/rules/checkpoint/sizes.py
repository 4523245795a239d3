"""Weights whose size differs from the model's, and where the model got its size."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from torch import nn

from whence.lineage.constructors import argument_origin
from whence.lineage.trail import where_built
from whence.rules.checkpoint.fitting import Shapes
from whence.source.spots import Spot
from whence.source.text import last_name
from whence.tape.scene import Scene

# The constructor argument that decides each axis of a layer's weight: position and name, by axis.
ARGUMENTS: tuple[tuple[tuple[type[nn.Module], ...], tuple[tuple[int, str], ...]], ...] = (
    ((nn.Linear,), ((1, "out_features"), (0, "in_features"))),
    ((nn.Bilinear,), ((2, "out_features"), (0, "in1_features"), (1, "in2_features"))),
    (
        (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d),
        (
            (0, "in_channels"),
            (1, "out_channels"),
            (2, "kernel_size"),
            (2, "kernel_size"),
            (2, "kernel_size"),
        ),
    ),
    (
        (nn.Conv1d, nn.Conv2d, nn.Conv3d),
        (
            (1, "out_channels"),
            (0, "in_channels"),
            (2, "kernel_size"),
            (2, "kernel_size"),
            (2, "kernel_size"),
        ),
    ),
    ((nn.Embedding, nn.EmbeddingBag), ((0, "num_embeddings"), (1, "embedding_dim"))),
    ((nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d), ((0, "num_features"),)),
    ((nn.LayerNorm,), ((0, "normalized_shape"),)),
    ((nn.GroupNorm,), ((1, "num_channels"),)),
    ((nn.MultiheadAttention,), ((0, "embed_dim"), (0, "embed_dim"))),
    ((nn.RNNBase,), ((1, "hidden_size"), (0, "input_size"))),
)


@dataclass(frozen=True, slots=True)
class Sized:
    """Where a weight's size was set, as an argument, and the argument that the checkpoint needs."""

    spot: Spot | None = None
    what: str = ""
    wanted: str = ""


def differing(given: Shapes, wanted: Shapes) -> list[str]:
    """Names that both have with different shapes, except for scalars of shape () and (1,)."""
    return [
        name
        for name, shape in wanted.items()
        if name in given and given[name] != shape and {given[name], shape} != {(), (1,)}
    ]


def where_sized(
    scene: Scene, model: nn.Module, name: str, given: tuple[int, ...], wanted: tuple[int, ...]
) -> Sized:
    path, _, last = name.rpartition(".")
    layer: nn.Module | None = model
    for step in path.split(".") if path else ():
        layer = layer._modules.get(step) if layer is not None else None
    if layer is None:
        return Sized()
    stack = scene.modules.built_at(layer)
    is_builtin = type(layer).__module__.startswith("torch.nn")
    axes = next((axes for kinds, axes in ARGUMENTS if is_builtin and isinstance(layer, kinds)), ())
    axis = next(
        (
            axis
            for axis, (one, other) in enumerate(zip(given, wanted, strict=False))
            if one != other
        ),
        None,
    )
    if last.startswith("bias") and axes and axes[0][1] == "in_channels":
        axes = axes[1:]
    if not stack or axis is None or axis >= len(axes) or len(given) != len(wanted):
        return Sized(where_built(layer, last, scene))
    node = stack[0].node()
    if not isinstance(node, ast.Call) or last_name(node.func) != type(layer).__name__:
        # A larger PyTorch layer built it from its own arguments.
        return Sized(Spot.of_site(stack[0]))
    position, argument = axes[axis]
    plain = getattr(layer, argument, None) == wanted[axis]
    return Sized(
        argument_origin(stack, position, argument),
        f"{argument}={wanted[axis]}" if plain else "",
        f"{argument}={given[axis]}" if plain else "",
    )
