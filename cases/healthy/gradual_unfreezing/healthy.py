"""ULMFiT-like: start with the head alone, hand one more layer to the same optimizer every few epochs."""
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, vocab, classes, dim=24):
        super().__init__()
        self.embed = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.layer1 = nn.Linear(dim, dim)
        self.layer2 = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, ids):
        h = torch.tanh(self.layer1(self.embed(ids)))
        h = torch.tanh(self.layer2(h))
        return self.head(h)


def texts(n, groups, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(groups, (n,), generator=g)
    ids = torch.randint(60, (n, 14), generator=g)
    topical = y[:, None] * (60 // groups) + torch.randint(60 // groups, (n, 14), generator=g)
    return torch.where(torch.rand(n, 14, generator=g) < 0.5, topical, ids), y


def run_epoch(model, opt, x, y, bs=40):
    total = 0.0
    for rows in torch.randperm(len(x)).split(bs):
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() * len(rows)
    return total / len(x)


torch.manual_seed(9)
# source task: 3 coarse topics
net = Reader(60, 3)
x, y = texts(400, 3, seed=1)
source_opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for _ in range(5):
    print(f"source {run_epoch(net, source_opt, x, y):.3f}")

# target task: 5 finer topics
net.head = nn.Linear(24, 5)
for frozen in (net.embed, net.layer1, net.layer2):
    frozen.requires_grad_(False)
opt = torch.optim.Adam(net.head.parameters(), lr=1e-2)
schedule = {3: net.layer2, 5: net.layer1, 7: net.embed}
x, y = texts(400, 5, seed=2)
for epoch in range(10):
    if epoch in schedule:
        layer = schedule[epoch]
        layer.requires_grad_(True)
        opt.add_param_group({"params": list(layer.parameters()), "lr": 5e-3})
    print(f"target epoch {epoch}: groups {len(opt.param_groups)}, loss {run_epoch(net, opt, x, y):.3f}")
