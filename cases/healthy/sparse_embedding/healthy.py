"""Bag-of-items recommender: sparse gradients for the big tables (SparseAdam), dense Adam for the small tower."""
import torch
import torch.nn.functional as F
from torch import nn

ITEMS, USERS, DIM = 2000, 300, 12
torch.manual_seed(100)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.history = nn.EmbeddingBag(ITEMS, DIM, mode="sum", sparse=True)
        self.user = nn.Embedding(USERS, DIM, sparse=True)
        self.tower = nn.Sequential(nn.Linear(2 * DIM, 32), nn.ReLU(), nn.Linear(32, 1))
        for table in (self.history, self.user):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, user, bags, offsets):
        both = torch.cat([self.user(user), self.history(bags, offsets)], dim=1)
        return self.tower(both).squeeze(1)


def batch(taste, n=64):
    user = torch.randint(0, USERS, (n,))
    sizes = torch.randint(0, 5, (n,))                       # new customers have an empty history
    bags = torch.randint(0, 40, (int(sizes.sum()),)) * 50   # 40 popular items in a table of 2000
    offsets = sizes.cumsum(0) - sizes
    owner = torch.repeat_interleave(torch.arange(n), sizes)
    score = torch.zeros(n).index_add(0, owner, taste[bags])
    return user, bags, offsets, (score > 0).float()


model = Recommender()
taste = torch.randn(ITEMS)
sparse = [model.history.weight, model.user.weight]
opt_sparse = torch.optim.SparseAdam(sparse, lr=2e-2)
opt_dense = torch.optim.Adam(model.tower.parameters(), lr=5e-3)
untouched = model.history.weight[1].clone()

for step in range(151):
    user, bags, offsets, y = batch(taste)
    logits = model(user, bags, offsets)
    loss = F.binary_cross_entropy_with_logits(logits, y)
    opt_sparse.zero_grad()
    opt_dense.zero_grad()
    loss.backward()
    opt_sparse.step()
    opt_dense.step()
    if step % 50 == 0:
        rows = model.history.weight.grad.coalesce().indices().size(1)
        print(f"step {step:3d}  bce {loss.item():.3f}  acc {((logits > 0) == y.bool()).float().mean().item():.2f}  rows with gradient {rows}")

print("rare item unchanged:", torch.equal(untouched, model.history.weight[1]))
