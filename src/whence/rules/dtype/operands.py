"""Which operand of a failed call has the wrong type, and whether mending it is enough."""

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
    """The data operand whose type is not that of the weights it meets, and the type it should have."""
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


def cured_by_cast(failed: FailedCall, tensor: torch.Tensor, dtype: torch.dtype) -> bool:
    """Run the call again on copies, this operand cast: does it go through?"""
    if isinstance(failed.func, nn.Module) or not callable(failed.func):
        return False

    def mend(each: torch.Tensor) -> torch.Tensor:
        return each.to(dtype) if each is tensor else each

    return try_values(failed.func, failed.args, failed.kwargs, mend).ran


def birth(failed: FailedCall, tensor: torch.Tensor) -> Trail:
    return trace(failed.value(tensor), HasDtype(tensor.dtype), failed)


METHODS = {
    torch.float32: "float",
    torch.float64: "double",
    torch.int64: "long",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
}


def cast_patch(trail: Trail, dtype: torch.dtype) -> str | None:
    """An edit of the birthplace that gives the right type: the `dtype=` that is there, the cast that is there, or a new cast."""
    edit = _cast_edit(trail, dtype)
    return diff_of(edit) if edit is not None else None


def _cast_edit(trail: Trail, dtype: torch.dtype) -> Edit | None:
    spot = trail.spot
    node = spot.node() if spot is not None else None
    if spot is None or not isinstance(node, ast.expr):
        return None
    filename = spot.filename
    # What came from outside torch is an array, unless the expression itself is one of torch's.
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
    """A column of a table, that an array is made of: `table["grade"].to_numpy()`."""
    around = parent_of(node)
    return isinstance(around, ast.Attribute) and around.attr in ("to_numpy", "values")


def _named_like(node: ast.expr, dtype: torch.dtype) -> str:
    """The new type, written as the old one was: np.float64 becomes np.float32, torch.long torch.float32, "f8" "float32"."""
    if isinstance(node, ast.Attribute):
        return f"{ast.unparse(node.value)}.{dtype_name(dtype)}"
    if isinstance(node, ast.Constant):
        return f'"{dtype_name(dtype)}"'
    return f"torch.{dtype_name(dtype)}"


def origin_of_type(trail: Trail, tensor: torch.Tensor) -> str:
    """Where the type comes from, in a few words."""
    if trail.spot is None:
        return f"the {dtype_name(tensor.dtype)} came from a place that Whence did not see"
    return f"{dtype_name(tensor.dtype)} since {trail.spot.file}:{trail.spot.line}"
