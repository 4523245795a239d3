# Node classification with shortest-path features. Nodes of other components are at distance inf in numpy, clipped before torch.
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(144)
N, FAR = 36, 8.0


def shortest_paths(adjacency):
    dist = np.where(adjacency, 1.0, np.inf)
    np.fill_diagonal(dist, 0.0)
    for k in range(len(dist)):
        dist = np.minimum(dist, dist[:, k:k + 1] + dist[k:k + 1, :])
    return dist


# three islands; the class of a node is its island
island = np.repeat([0, 1, 2], N // 3)
adjacency = (island[:, None] == island[None]) & (rng.random((N, N)) < 0.25)
adjacency |= adjacency.T
dist = shortest_paths(adjacency)
with np.errstate(divide="ignore"):
    closeness = np.where(dist > 0, 1.0 / dist, 0.0)            # 1/inf is 0
print("unreachable pairs", int(np.isinf(dist).sum()), "of", N * N)

landmarks = np.array([1, 14, 30])
features = np.concatenate([np.minimum(dist[:, landmarks], FAR) / FAR, closeness.mean(1, keepdims=True)], axis=1)
x = torch.from_numpy(features).float()
y = torch.from_numpy(island).long()
bias = torch.from_numpy(-np.minimum(dist, FAR)).float()

torch.manual_seed(144)
lift, head = nn.Linear(4, 16), nn.Linear(16, 3)
temperature = nn.Parameter(torch.tensor(1.0))
opt = torch.optim.Adam([*lift.parameters(), *head.parameters(), temperature], lr=0.03)
train = torch.arange(N) % 3 == 0
for epoch in range(60):
    mix = torch.softmax(bias * temperature, dim=1)             # nearer nodes count more
    logits = head(torch.relu(lift(mix @ x)))
    loss = nn.functional.cross_entropy(logits[train], y[train])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 15 == 0:
        right = (logits[~train].argmax(1) == y[~train]).float().mean().item()
        print(f"epoch {epoch} loss {loss.item():.4f} other nodes right {right:.2f}")
