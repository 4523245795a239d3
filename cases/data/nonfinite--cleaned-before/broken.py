"""Shops: how many come back? Rates of shops without visitors count as none."""
import numpy as np
import torch

np.seterr(all="ignore")
rng = np.random.default_rng(12)
visitors = rng.poisson(rng.gamma(1.0, 12.0, 600))
buyers = rng.binomial(visitors, 0.3)
rate = buyers / visitors
features = np.column_stack([visitors, rate, rng.normal(size=600)])
features = np.nan_to_num(features)
features[:, 0] = features[:, 0] / 10
features = np.column_stack([np.log(features[:, 0] - 0.05), features[:, 1:]])  # ORIGIN
features = features / 2
back = torch.from_numpy((0.2 * visitors * np.nan_to_num(rate) + rng.normal(size=600) > 1).astype(np.int64))
data = torch.from_numpy(features.astype(np.float32))

torch.manual_seed(12)
net = torch.nn.Sequential(torch.nn.Linear(3, 12), torch.nn.ReLU(), torch.nn.Linear(12, 2))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(40):
    rows = torch.randint(0, 600, (60,))
    loss = torch.nn.functional.cross_entropy(net(data[rows]), back[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step, loss.item())
