import torch
from torch import nn


class HyperNetwork(nn.Module):
    """Makes the weights of a small regressor for each task."""

    def __init__(self, tasks, inputs, hidden):
        super().__init__()
        self.task = nn.Embedding(tasks, 8)
        self.make = nn.Linear(8, hidden * inputs)
        self.shape = hidden, inputs

    def forward(self, task):
        return self.make(self.task(task)).view(self.shape)


class Regressor(nn.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.bias, self.out = nn.Parameter(torch.zeros(hidden)), nn.Linear(hidden, 1)

    def forward(self, x, weight):
        h = nn.functional.linear(x, weight, self.bias)
        return self.out(torch.tanh(h)).squeeze(-1)


torch.manual_seed(0)
truth = torch.randn(4, 5)
hyper, net = HyperNetwork(4, 5, 12), Regressor(5, 12)
optimizer = torch.optim.Adam([*hyper.parameters(), *net.parameters()], lr=3e-3)
for step in range(60):
    task = torch.randint(0, 4, ())
    x = torch.randn(32, 5)
    loss = (net(x, hyper(task)) - torch.sin(x @ truth[task])).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(f"step {step} loss {loss.item():.4f}")
