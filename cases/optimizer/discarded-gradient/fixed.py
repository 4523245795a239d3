import numpy as np
import torch
from torch import nn, optim

rng = np.random.default_rng(11)
torch.manual_seed(11)

# housing-like table, standardised
features = rng.normal(size=(600, 8)).astype(np.float32)
coef = rng.normal(size=(8, 1)).astype(np.float32)
price = features @ coef + 0.5 * np.sin(2 * features[:, :1]) + 0.1 * rng.normal(size=(600, 1)).astype(np.float32)
price = ((price - price.mean()) / price.std()).astype(np.float32)

X, Y = torch.from_numpy(features), torch.from_numpy(price)
net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
opt = optim.SGD(net.parameters(), lr=0.1)
mse = nn.MSELoss()


def batches(bs=50):
    perm = torch.randperm(len(X))
    for i in range(0, len(X), bs):
        yield X[perm[i:i + bs]], Y[perm[i:i + bs]]


for epoch in range(4):
    losses = []
    for xb, yb in batches():
        loss = mse(net(xb), yb)
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    print(f"epoch {epoch} mse={np.mean(losses):.4f}")
