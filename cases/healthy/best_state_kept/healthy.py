"""Keeps the best epoch three ways (deepcopy, clones, a torch.save into memory), goes back to it, and moves the body into a new net with strict=False."""
import copy
import io

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(10, 40), nn.BatchNorm1d(40), nn.ReLU(), nn.Dropout(0.2), nn.Linear(40, 20), nn.ReLU())
        self.head = nn.Linear(20, classes)

    def forward(self, x):
        return self.head(self.body(x))


def validate(model, loader):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in loader:
            total += nn.functional.cross_entropy(model(x), y, reduction="sum").item()
    model.train()
    return total / len(loader.dataset)


def blobs(n, k, seed):
    g = torch.Generator().manual_seed(seed)
    c = torch.randn(k, 10, generator=torch.Generator().manual_seed(k))
    y = torch.randint(k, (n,), generator=g)
    return TensorDataset(c[y] + 1.3 * torch.randn(n, 10, generator=g), y)


def fit(model, train, valid, epochs, lr):
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=lr)
    best = float("inf")
    kept = {}
    for epoch in range(epochs):
        for x, y in train:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
        v = validate(model, valid)
        if v < best:
            best = v
            kept["copy"] = copy.deepcopy(model.state_dict())
            kept["clones"] = {k: t.clone() for k, t in model.state_dict().items()}
            kept["bytes"] = io.BytesIO()
            torch.save(model.state_dict(), kept["bytes"])
        print(f"epoch {epoch} train {loss.item():.3f} valid {v:.3f}{' *' if v == best else ''}")
    kept["bytes"].seek(0)
    for state in (kept["copy"], kept["clones"], torch.load(kept["bytes"])):
        model.load_state_dict(state)
        assert abs(validate(model, valid) - best) < 1e-6
    return kept["copy"]


torch.manual_seed(18)
model = Net(4)
state = fit(model, DataLoader(blobs(96, 4, 1), 24, shuffle=True), DataLoader(blobs(160, 4, 2), 80), epochs=14, lr=1e-2)

bigger = Net(6)
body_only = {k: v for k, v in state.items() if k.startswith("body.")}
result = bigger.load_state_dict(body_only, strict=False)
print("new head, missing on purpose:", result.missing_keys, "unexpected:", result.unexpected_keys)
fit(bigger, DataLoader(blobs(160, 6, 3), 32, shuffle=True), DataLoader(blobs(160, 6, 4), 80), epochs=8, lr=5e-3)
