"""Sleep stages from breathing: a stack of gated blocks around any layer that is given."""
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, inner, width):
        super().__init__()
        self.inner, self.gate = inner, nn.Linear(width, width)

    def forward(self, signal):
        return torch.sigmoid(self.gate(signal)) * self.inner(signal)


class Outputs(nn.Module):
    def __init__(self, recurrent):
        super().__init__()
        self.recurrent = recurrent

    def forward(self, signal):
        return self.recurrent(signal)[0]


def build(width=20, stages=4):
    blocks = [
        Gated(nn.Sequential(nn.Linear(width, width), nn.ReLU()), width),
        Gated(Outputs(nn.LSTM(width, width, batch_first=True)), width),
    ]
    return nn.Sequential(nn.Linear(3, width), *blocks, nn.Linear(width, stages))


torch.manual_seed(7)
model = build()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for night in range(12):
    breath = torch.randn(16, 50, 3)
    stage = breath[..., 0].cumsum(1).abs().long().clamp(max=3)
    loss = nn.functional.cross_entropy(model(breath).flatten(0, 1), stage.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
