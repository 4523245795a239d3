"""Learn the mean and the spread of two numbers that depend on a third."""
import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
x = torch.rand(64, 1)
y = torch.cat([x, -x], 1) + 0.1 * torch.randn(64, 2)


class Density(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(1, 16)
        self.mean = nn.Linear(16, 2)
        self.spread = nn.Linear(16, 2)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        spread = torch.relu(self.spread(h))  # ORIGIN
        return Normal(self.mean(h), spread)


model = Density()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(10):
    loss = -model(x).log_prob(y).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
