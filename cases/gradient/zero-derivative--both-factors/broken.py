import torch
from torch import nn


class Adapted(nn.Module):
    """A layer that stays as it is, and a small one beside it that learns."""

    def __init__(self, layer, rank):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.empty(layer.in_features, rank))
        nn.init.zeros_(self.down)  # ORIGIN
        self.up = nn.Parameter(torch.zeros(rank, layer.out_features))

    def forward(self, x):
        return self.layer(x) + x @ self.down @ self.up


torch.manual_seed(15)
x = torch.randn(64, 12)
y = (x[:, :3].sum(1) > 0).long()
model = nn.Sequential(Adapted(nn.Linear(12, 16), rank=2), nn.Tanh(), nn.Linear(16, 2))
optimizer = torch.optim.Adam([each for each in model.parameters() if each.requires_grad], lr=1e-2)
for _step in range(20):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
