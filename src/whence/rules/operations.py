"""What is known about PyTorch's operations: their arguments, and which require one dtype."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import nn

from whence.tape.failed import FailedCall
from whence.tape.operations import NORMS

CONVOLUTIONS: Final = frozenset(
    {"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
)
PRODUCTS: Final = frozenset(
    {
        "matmul",
        "__matmul__",
        "__rmatmul__",
        "mm",
        "bmm",
        "mv",
        "addmm",
        "baddbmm",
        "dot",
        "einsum",
        "bilinear",
    }
)
EXCHANGES = frozenset({"transpose", "permute", "swapaxes", "swapdims", "movedim"})
"""Operations that swap axes."""
RECURRENT: Final = frozenset(
    {
        "lstm",
        "gru",
        "rnn_tanh",
        "rnn_relu",
        "LSTM",
        "GRU",
        "RNN",
        "lstm_cell",
        "LSTMCell",
        "gru_cell",
        "GRUCell",
    }
)
ATTENTION: Final = frozenset(
    {"scaled_dot_product_attention", "multi_head_attention_forward", "MultiheadAttention",
     "TransformerEncoder", "TransformerEncoderLayer", "TransformerDecoder",
     "TransformerDecoderLayer"}
)  # fmt: skip
# Operations without type promotion: all their floating operands must have one dtype.
STRICT: Final = CONVOLUTIONS | NORMS | PRODUCTS | RECURRENT | ATTENTION | {"linear"}

ELEMENTWISE: Final = frozenset(
    {"add", "sub", "mul", "div", "__add__", "__radd__", "__sub__", "__rsub__", "__mul__",
     "__rmul__", "__truediv__", "__rtruediv__", "__iadd__", "__isub__", "__imul__", "__itruediv__",
     "add_", "sub_", "mul_", "div_", "true_divide", "__pow__", "pow", "where", "maximum", "minimum",
     "eq", "__eq__", "ne", "lerp", "addcmul", "truediv", "rsub", "masked_fill", "masked_fill_",
     "__lt__", "__gt__", "lt", "gt", "le", "ge"}
)  # fmt: skip
ORDERS: Final = frozenset({"lt", "__lt__", "gt", "__gt__", "le", "ge", "__le__", "__ge__"})
COMPARISONS: Final = ORDERS | {"eq", "__eq__", "ne", "__ne__"}
RESHAPES: Final = frozenset({"view", "reshape", "unflatten", "view_as", "reshape_as"})
LOSSES: Final = frozenset(
    {"cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits",
     "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss",
     "gaussian_nll_loss", "soft_margin_loss", "multilabel_margin_loss",
     "multilabel_soft_margin_loss", "multi_margin_loss", "hinge_embedding_loss"}
)  # fmt: skip
CLASS_LOSSES: Final = frozenset({"cross_entropy", "nll_loss"})
SAME_SHAPE_LOSSES: Final = LOSSES - CLASS_LOSSES
DISTANCES: Final = SAME_SHAPE_LOSSES | {"sub", "__sub__", "__rsub__"}
# Calls that return the values of their input, at other positions or in another dtype.
SAME_NUMBERS: Final = frozenset(
    {"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "transpose", "permute",
     "contiguous", "clone", "to", "float", "double", "half", "bfloat16", "__getitem__", "t",
     "T.__get__", "movedim", "swapaxes", "view_as", "reshape_as", "expand", "index_select",
     "masked_select", "cpu", "cuda", "type_as", "chunk", "split", "unbind", "cat", "stack",
     "select", "narrow", "type", "Variable"}
)  # fmt: skip


def loss_operands(failed: FailedCall) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Prediction and target of a failed loss."""
    if failed.name not in LOSSES:
        return None
    prediction, target = failed.argument(0, "input"), failed.argument(1, "target")
    if isinstance(prediction, torch.Tensor) and isinstance(target, torch.Tensor):
        return prediction, target
    return None


def weight_of(failed: FailedCall) -> torch.Tensor | None:
    """The parameter in the call, which decides the dtype and size that the data should have."""
    for tensor in failed.tensors():
        if isinstance(tensor, nn.Parameter):
            return tensor
    layer = failed.layer
    if isinstance(failed.func, nn.Module) and layer is not None:
        return next(nn.Module.parameters(layer), None)
    return next(
        (tensor for tensor in failed.tensors() if tensor.requires_grad and tensor.is_leaf), None
    )


def data_operands(failed: FailedCall) -> Iterator[torch.Tensor]:
    """The operands that are not weights."""
    weight = weight_of(failed)
    for tensor in failed.tensors():
        if (
            tensor is not weight
            and not isinstance(tensor, nn.Parameter)
            and failed.modules.owner_of(tensor) is None
        ):
            yield tensor


def convolution(failed: FailedCall) -> tuple[torch.Tensor, torch.Tensor, int] | None:
    """Input, weight and groups of a failed convolution."""
    if failed.name not in CONVOLUTIONS:
        return None
    given, weight = failed.argument(0, "input"), failed.argument(1, "weight")
    groups: Any = failed.argument(6, "groups")
    if isinstance(given, torch.Tensor) and isinstance(weight, torch.Tensor) and weight.dim() >= 3:
        return given, weight, groups if isinstance(groups, int) else 1
    return None
