"""PyTorch functions that pass themselves to modes through helpers, patched and not."""

from unittest import mock

import torch
import torch.nn.functional as F

x = torch.tensor([1.0, 2, 2])
for each in (
    torch.unique(x),
    torch.unique_consecutive(x),
    F.max_pool1d(x[None, None], 2),
    torch.stft(torch.ones(400), 20, window=torch.ones(20), return_complex=True).shape,
    torch.split(x, 2),
    torch.einsum("i,i", x, x),
    torch.norm(x),
    torch.cdist(x[:, None], x[:, None]),
    torch.meshgrid(x, x, indexing="ij")[0].shape,
    F.adaptive_max_pool1d(x[None, None], 2, return_indices=True),
    F.fractional_max_pool2d(torch.randn(1, 1, 6, 6), 2, output_size=2).shape,
    torch.block_diag(x, x).shape,
    torch.tensordot(x, x, 1),
    torch.atleast_2d(x),
    torch.broadcast_tensors(x, x)[0],
):
    print(each)
with mock.patch.object(torch, "unique", wraps=torch.unique) as m:
    print(torch.unique(x), m.call_count)
with mock.patch.object(F, "max_pool1d", wraps=F.max_pool1d) as m:
    print(F.max_pool1d(x[None, None], 2), m.call_count)
for name in ("__rsub__", "__rdiv__", "__rpow__"):
    print(getattr(x, name)(2))
