import torch
from torch import nn


class SetPooling(nn.Module):
    """a handful of learned queries that read a set of vectors"""

    def __init__(self, dim, n_queries):
        super().__init__()
        self.queries = torch.randn(n_queries, dim, requires_grad=True)  # ORIGIN
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)

    def forward(self, x):
        att = torch.einsum("qd,bnd->bqn", self.queries, self.key(x)) / x.size(-1) ** 0.5
        return torch.einsum("bqn,bnd->bqd", att.softmax(-1), self.value(x)).flatten(1)


class SetModel(nn.Module):
    def __init__(self, d_in=5, dim=24, n_queries=4):
        super().__init__()
        self.lift = nn.Sequential(nn.Linear(d_in, dim), nn.Tanh())
        self.pool = SetPooling(dim, n_queries)
        self.head = nn.Linear(dim * n_queries, 1)

    def forward(self, x):
        return self.head(self.pool(self.lift(x)))


def sample(n):
    x = torch.randn(n, 11, 5)
    best = x[..., 0].argmax(dim=1)
    return x, x[torch.arange(n), best, 1:2]  # channel 1 of the element with the largest channel 0


torch.manual_seed(9)
model = SetModel()
before = model.pool.queries.detach().clone()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(80):
    x, y = sample(64)
    loss = nn.functional.mse_loss(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 19:
        print(f"step {step + 1}: mse {loss.item():.4f}")
print("query shift", (model.pool.queries.detach() - before).abs().max().item())
