"""Which operand of a failed call has the wrong dtype, and whether a cast of it is enough."""

from __future__ import annotations

import ast

import torch
from torch import nn

from whence.lineage.properties import HasDtype
from whence.lineage.trail import Birth, Trail, trace
from whence.rules.operations import STRICT, data_operands, weight_of
from whence.rules.telling import dtype_name
from whence.source.edits import Edit, diff_of, in_parentheses, insert_after, replace_node
from whence.source.text import parent_of, root_name, text_of
from whence.tape.failed import FailedCall
from whence.tape.trial import try_values


def misfit(failed: FailedCall) -> tuple[torch.Tensor, torch.dtype] | None:
    """The data operand whose dtype differs from the weights', and the dtype of the weights."""
    weight = weight_of(failed)
    if failed.name not in STRICT or weight is None or not weight.dtype.is_floating_point:
        return None
    for tensor in data_operands(failed):
        if tensor.dtype != weight.dtype and not _is_mask(failed, tensor):
            return tensor, weight.dtype
    return None


def _is_mask(failed: FailedCall, tensor: torch.Tensor) -> bool:
    return tensor.dtype == torch.bool or any(
        tensor is each for name, each in failed.kwargs.items() if "mask" in name or "length" in name
    )


def runs_with_cast(failed: FailedCall, tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether the call runs on copies with this operand cast."""
    if isinstance(failed.func, nn.Module) or not callable(failed.func):
        return False

    def cast(each: torch.Tensor) -> torch.Tensor:
        return each.to(dtype) if each is tensor else each

    return try_values(failed.func, failed.args, failed.kwargs, cast).ran


def dtype_trail(failed: FailedCall, tensor: torch.Tensor) -> Trail:
    return trace(failed.value(tensor), HasDtype(tensor.dtype), failed)


METHODS = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int64: "long",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
}


def cast_patch(trail: Trail, dtype: torch.dtype) -> str | None:
    """Edit the origin: change its `dtype=` or its cast, or add a cast."""
    edit = _cast_edit(trail, dtype)
    return diff_of(edit) if edit is not None else None


def _cast_edit(trail: Trail, dtype: torch.dtype) -> Edit | None:
    spot = trail.spot
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.expr):
        return None
    filename = spot.filename
    # Data from outside PyTorch is an array, unless the expression itself is a torch call.
    cast = (
        f'.astype("{dtype_name(dtype)}")'
        if trail.birth in (Birth.SOURCE, Birth.SAMPLE) and root_name(node) not in ("torch", "F")
        else f".{METHODS[dtype]}()"
    )
    if trail.birth is Birth.NUMBER:
        return replace_node(
            filename,
            node,
            f"torch.tensor({text_of(filename, node)}, dtype=torch.{dtype_name(dtype)})",
        )
    if isinstance(node, ast.BinOp):
        return replace_node(filename, node, f"({text_of(filename, node)}){cast}")
    if isinstance(node, ast.Subscript) and _is_column(node):
        return insert_after(filename, node, cast)
    if not isinstance(node, ast.Call):
        return None
    for keyword in node.keywords:
        if keyword.arg == "dtype":
            return replace_node(filename, keyword.value, _named_like(keyword.value, dtype))
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in METHODS.values()
        and not node.args
    ):
        return replace_node(
            filename, node, f"{in_parentheses(filename, node.func.value)}.{METHODS[dtype]}()"
        )
    if (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in ("astype", "to", "type")
        and len(node.args) == 1
    ):
        return replace_node(filename, node.args[0], _named_like(node.args[0], dtype))
    return insert_after(filename, node, cast)


def _is_column(node: ast.Subscript) -> bool:
    """A table column that becomes an array: `table["grade"].to_numpy()`."""
    around = parent_of(node)
    return isinstance(around, ast.Attribute) and around.attr in ("to_numpy", "values")


def _named_like(node: ast.expr, dtype: torch.dtype) -> str:
    """The new dtype in the style of the old one: np.float64 to np.float32, "f8" to "float32"."""
    if isinstance(node, ast.Attribute):
        return f"{ast.unparse(node.value)}.{dtype_name(dtype)}"
    if isinstance(node, ast.Constant):
        return f'"{dtype_name(dtype)}"'
    return f"torch.{dtype_name(dtype)}"


def origin_of_type(trail: Trail, tensor: torch.Tensor) -> str:
    """A short sentence on where the dtype comes from."""
    if trail.spot is None:
        return f"The origin of the {dtype_name(tensor.dtype)} data is unknown"
    return f"The data are {dtype_name(tensor.dtype)} since {trail.spot.file}:{trail.spot.line}"
