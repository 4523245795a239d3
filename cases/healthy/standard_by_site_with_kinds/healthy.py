"""Each site is standardised by itself, the one that is tested as well; what kind of sensor it was stands beside, as 0 and 1."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def site(number, rng, count=80):
    wet = rng.random(count) < 0.4
    soil = rng.normal(size=(count, 3)) * (1 + number) + 5 * number + 2.0 * (1 + number) * wet[:, None]
    soil = (soil - soil.mean(0)) / soil.std(0)
    kind = np.eye(2)[rng.integers(0, 2, count)]
    return np.hstack([soil, kind]).astype(np.float32), wet.astype(np.float32)


rng = np.random.default_rng(3)
sites = [site(number, rng) for number in range(5)]
torch.manual_seed(3)
train = TensorDataset(*(torch.from_numpy(np.concatenate(part)) for part in zip(*sites[:4])))
test = TensorDataset(*map(torch.from_numpy, sites[4]))
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    net.train()
    for soil, wet in DataLoader(train, batch_size=32, shuffle=True):
        loss = nn.functional.binary_cross_entropy_with_logits(net(soil)[:, 0], wet)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()
    with torch.no_grad():
        right = sum(((net(soil)[:, 0] > 0) == (wet > 0.5)).sum().item() for soil, wet in DataLoader(test, batch_size=80))
    print(f"epoch {epoch}: {loss.item():.3f}, {right} of {len(test)} right")
