"""A straight line, found by a module with two numbers."""

import torch
from torch import nn

torch.manual_seed(0)
x = torch.linspace(-1, 1, 50)
y = 3 * x + 1


class Line(nn.Module):
    def __init__(self, start):
        self.start = start  # ORIGIN
        self.slope = nn.Parameter(torch.tensor(start))
        self.height = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.slope * x + self.height


model = Line(0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
for step in range(20):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"slope {model.slope.item():.2f}")
