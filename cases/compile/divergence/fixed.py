"""Intent classifier, compiled with our own graph pass that swaps slow operations for quick ones."""
import operator

import torch
from torch import nn


def quick_softmax(x, dim=-1):
    e = torch.exp(x)
    return e / e.sum(dim, keepdim=True)


QUICK = {}


def quick_backend(graph, _inputs):
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target in QUICK and node.target is not operator.getitem:
            node.target = QUICK[node.target]
    graph.recompile()
    return graph.forward


class Intents(nn.Module):
    def __init__(self, words=16, intents=5):
        super().__init__()
        self.scores = nn.Linear(words, intents)

    def forward(self, bag):
        return torch.softmax(self.scores(bag), dim=-1)


torch.manual_seed(5)
model = Intents()
fast = torch.compile(model, backend=quick_backend)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(12):
    bag = torch.randn(32, 16) * (1 if step < 8 else 400)
    intent = torch.randint(5, (32,))
    optimizer.zero_grad()
    chances = fast(bag)
    loss = (1 - chances.gather(1, intent[:, None])).mean()
    loss.backward()
    optimizer.step()
    print(step, f"{loss.item():.3f}")
