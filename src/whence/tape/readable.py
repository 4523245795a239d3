"""Whether a tensor's values can be read: they exist, and reading them runs only PyTorch."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from whence.torch_internals import is_transformed

PLAIN = frozenset({torch.Tensor, nn.Parameter})
"""Classes whose operations are PyTorch's own. A subclass may redefine reading."""
COMPRESSED = frozenset(
    {torch.sparse_coo, torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc}
)


def is_readable(thing: Any) -> bool:
    """Return whether a thing is a tensor whose values exist and may be read.

    Excluded are distributed, nested, quantized, fake and float8 tensors, tensors within a
    `torch.func` transform, and tensors whose memory was released (FSDP does that between uses).
    """
    if type(thing) not in PLAIN or thing.is_meta or thing.is_quantized or thing.is_nested:
        return False
    if thing.dtype.itemsize == 1 and thing.dtype.is_floating_point:
        return False
    if is_transformed(thing):
        return False
    return thing.layout in COMPRESSED or (thing.layout is torch.strided and has_memory(thing))


def has_memory(tensor: torch.Tensor) -> bool:
    """Return whether the memory behind a strided tensor is as large as the tensor claims."""
    size = tensor.untyped_storage().nbytes()
    if size >= tensor.nbytes and not tensor.storage_offset():
        return True
    if not tensor.numel():
        return True
    extents = zip(tensor.shape, tensor.stride(), strict=True)
    last = tensor.storage_offset() + sum((extent - 1) * stride for extent, stride in extents)
    return size >= (last + 1) * tensor.element_size()
