# Set classifier; some sets are empty, so all of their keys are masked.
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(1)
MAX = 6


class SetEncoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Linear(3, dim)
        self.query = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.key, self.value = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.head = nn.Linear(dim, 2)

    def forward(self, items, present):
        h = torch.relu(self.embed(items))
        q = self.query.expand(len(items), -1, -1)
        pooled = F.scaled_dot_product_attention(q, self.key(h), self.value(h), attn_mask=present[:, None, :])
        pooled = pooled.squeeze(1).masked_fill(~present.any(1, keepdim=True), 0.0)
        return self.head(pooled)


def draw(n):
    size = torch.randint(0, MAX + 1, (n,))
    present = torch.arange(MAX) < size[:, None]
    items = torch.randn(n, MAX, 3) * present[..., None]
    # class 1: the strongest item is positive in the first feature
    label = (items[..., 0].sum(1) > 0).long()
    return items, present, label


net = SetEncoder()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(100):
    items, present, label = draw(64)
    loss = F.cross_entropy(net(items, present), label)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(step, "loss", round(loss.item(), 4), "empty sets", int((~present.any(1)).sum()))
with torch.no_grad():
    items, present, label = draw(500)
    print("accuracy", (net(items, present).argmax(1) == label).float().mean().item())
