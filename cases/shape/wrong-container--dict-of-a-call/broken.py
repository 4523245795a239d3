"""A two-headed scorer of essays; the loop reads a result as if it were a tensor."""
import torch
from torch import nn


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(30, 24), nn.Tanh())
        self.style, self.content = nn.Linear(24, 1), nn.Linear(24, 1)

    def forward(self, essay):
        read = self.body(essay)
        return {"style": self.style(read), "content": self.content(read)}


def run(scorer, essays, marks, steps=20):
    optimizer = torch.optim.SGD(scorer.parameters(), lr=0.05)
    for _ in range(steps):
        error = scorer(essays).squeeze(-1) - marks  # ORIGIN
        loss = error.pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(3)
essays = torch.randn(80, 30)
print(run(Scorer(), essays, essays[:, :4].sum(1)))
