import torch
from torch import nn


class Rational(nn.Module):
    """A layer of its own kind, which looks at what it is given."""

    def __init__(self, features, units):
        super().__init__()
        self.features = features
        self.up = nn.Parameter(torch.randn(features, units) * features**-0.5)
        self.down = nn.Parameter(torch.randn(features, units) * features**-0.5)

    def forward(self, x):
        assert x.size(-1) == self.features
        return (x @ self.up) / (1 + (x @ self.down) ** 2)


torch.manual_seed(12)
pictures, labels = torch.randn(64, 1, 8, 8), torch.arange(64) % 4
model = nn.Sequential(Rational(64, 16), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(6):
    rows = torch.arange(16) + 16 * (step % 4)
    optimizer.zero_grad()
    logits = model(pictures[rows])  # ORIGIN
    nn.functional.cross_entropy(logits, labels[rows]).backward()
    optimizer.step()
