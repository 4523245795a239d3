"""The updates of two optimizers are compiled: one step by itself, and one within a function that clears as well."""

import torch
from torch import nn

torch.manual_seed(0)
encoder, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 1)
slow = torch.optim.Adam(encoder.parameters(), lr=1e-2)
fast = torch.optim.Adam(head.parameters(), lr=3e-2)
step_slow = torch.compile(slow.step, backend="eager")


@torch.compile(backend="eager")
def update_head() -> None:
    fast.step()
    fast.zero_grad()


inputs = torch.randn(64, 8)
targets = inputs.sum(1, keepdim=True)
for _ in range(20):
    slow.zero_grad()
    loss = nn.functional.mse_loss(head(encoder(inputs)), targets)
    loss.backward()
    step_slow()
    update_head()
print(f"{loss.item():.9f}")
