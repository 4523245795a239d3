"""Unusual operands that torch rejects: the program catches torch's own exception."""

import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
torch.manual_seed(0)
float8 = torch.randn(3, 4).to(torch.float8_e4m3fn)
nested = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)])
jagged = torch.nested.nested_tensor([torch.randn(2, 4), torch.randn(3, 4)], layout=torch.jagged)
sparse = torch.randn(3, 4).relu().to_sparse()
compressed = torch.randn(3, 4).relu().to_sparse_csr()
meta = torch.empty(3, 4, device="meta")
quantised = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
freed = torch.randn(3, 4)
freed.untyped_storage().resize_(0)
expanded = torch.randn(3, 1).expand(3, 4)
model = nn.Linear(5, 2)
for name, operand in {
    "float8": float8, "nested": nested, "jagged": jagged, "sparse": sparse, "csr": compressed,
    "meta": meta, "quantised": quantised, "expanded": expanded,
}.items():  # fmt: skip
    for what, act in {
        "matmul": lambda: torch.randn(3, 4) @ operand,  # noqa: B023
        "add": lambda: torch.randn(2, 7) + operand,  # noqa: B023
        "linear": lambda: model(operand),  # noqa: B023
        "cat": lambda: torch.cat([torch.randn(5, 9), operand]),  # noqa: B023
        "view": lambda: operand.view(7, 7),  # noqa: B023
        "loss": lambda: nn.functional.mse_loss(operand, torch.randn(3, 5)),  # noqa: B023
    }.items():
        try:
            act()
            print(name, what, "no exception")
        except Exception as error:
            print(name, what, type(error).__name__, str(error).splitlines()[0][:150])
try:
    torch.randn(3, 4) @ freed
except Exception as error:
    print("freed", type(error).__name__, str(error).splitlines()[0][:150])
