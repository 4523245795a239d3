"""Two heads on one trunk, and one loss of two terms."""

import torch
from torch import nn


class Joint(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 32), nn.ReLU())
        self.kind = nn.Linear(32, 4)
        self.depth = nn.Linear(32, 1)

    def objective(self, x: torch.Tensor, kind: torch.Tensor, depth: torch.Tensor) -> torch.Tensor:
        shared = self.trunk(x)
        sorting = nn.functional.cross_entropy(self.kind(shared), kind)
        measuring = nn.functional.smooth_l1_loss(self.depth(shared).squeeze(-1), depth)
        self.logged = {"sorting": sorting.item(), "measuring": measuring.item()}
        return sorting + 0.5 * measuring


torch.manual_seed(0)
model = Joint()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
mix = torch.randn(12, 4)
for step in range(24):
    x = torch.randn(32, 12)
    loss = model.objective(x, (x @ mix).argmax(1), x[:, :3].sum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.logged)
