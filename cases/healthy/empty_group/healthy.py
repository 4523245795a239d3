"""Fair regression: one loss per group in the batch, groups without members are skipped."""
from collections import defaultdict

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(52)
GROUPS = 5
group = torch.multinomial(torch.tensor([0.5, 0.3, 0.15, 0.04, 0.01]), 300, replacement=True)
x = torch.randn(300, 4)
y = x @ torch.tensor([1.0, -1.0, 0.5, 0.0]) + 0.3 * group

model = nn.Sequential(nn.Linear(4 + GROUPS, 24), nn.ReLU(), nn.Linear(24, 1))
opt = torch.optim.Adam(model.parameters(), lr=5e-3)


def group_losses(pred, target, g):
    for k in range(GROUPS):
        member = g == k
        error = (pred[member] - target[member]).square().mean()   # nan when nobody is there
        if member.any():
            yield k, error


loader = DataLoader(TensorDataset(x, y, group), batch_size=30, shuffle=True, generator=torch.Generator().manual_seed(7))
for epoch in range(9):
    seen = defaultdict(list)
    for xb, yb, gb in loader:
        pred = model(torch.cat([xb, nn.functional.one_hot(gb, GROUPS).float()], 1)).squeeze(1)
        parts = dict(group_losses(pred, yb, gb))
        loss = torch.stack(list(parts.values())).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        for k, v in parts.items():
            seen[k].append(v.item())
    if epoch % 4 == 0:
        print(f"epoch {epoch}", {k: round(sum(v) / len(v), 3) for k, v in sorted(seen.items())})
