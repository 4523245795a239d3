import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
x = rng.normal(size=(400, 5)).astype("f4")
y = (x @ rng.normal(size=5) + 0.1 * rng.normal(size=400)).astype("f4")
order = np.argsort(x[:, 0])
x, y = x[order], y[order]
x = (x - x.mean(0)) / x.std(0)
X, Y = torch.from_numpy(x), torch.from_numpy(y)
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(4):
    for rows in torch.randperm(400).split(40):
        loss = nn.functional.mse_loss(net(X[rows]).squeeze(1), Y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
