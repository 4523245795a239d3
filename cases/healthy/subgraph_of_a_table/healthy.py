"""Some nodes of a graph in each step, as many as there are columns: rows and columns are both divided by the degrees."""

import torch
from torch import nn

torch.manual_seed(0)
NODES, SOME = 200, 32
adjacency = torch.rand(NODES, NODES) * (torch.rand(NODES, NODES) < 0.1)
adjacency = (adjacency + adjacency.T) / 2
adjacency.fill_diagonal_(1)
features = torch.randn(NODES, 6)
labels = (adjacency @ features).sum(1).gt(0).long()


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 16), nn.Linear(16, 2)

    def forward(self, adj, x):
        degrees = adj.sum(1).rsqrt()
        adj = degrees.unsqueeze(1) * adj * degrees
        return adj @ self.second(torch.relu(adj @ self.first(x)))


model = Convolution()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _step in range(40):
    nodes = torch.randperm(NODES)[:SOME]
    loss = nn.functional.cross_entropy(model(adjacency[nodes][:, nodes], features[nodes]), labels[nodes])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.3f}")
