import io

import numpy as np
import pandas as pd
import torch
import torch.nn as nn

rng = np.random.default_rng(14)
csv = io.StringIO()
pd.DataFrame(
    {
        "area": rng.uniform(30, 180, 300),
        "rooms": rng.integers(1, 6, 300),
        "rating": rng.uniform(0, 1, 300),
    }
).assign(price=lambda d: 0.012 * d.area + 0.2 * d.rooms + 0.8 * d.rating).to_csv(csv, index=False)
csv.seek(0)

homes = pd.read_csv(csv)
schema = {"area": "float32", "rooms": "float32", "rating": "float32", "price": "int64"}
homes = homes.astype(schema)  # ORIGIN
x = homes[["area", "rooms", "rating"]].to_numpy()
x = (x - x.mean(0)) / x.std(0)
X = torch.from_numpy(x)
Y = torch.from_numpy(homes["price"].to_numpy()).float().view(-1, 1)

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(12):
    for rows in torch.randperm(300).split(30):
        loss = nn.functional.mse_loss(net(X[rows]), Y[rows])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, round(loss.item(), 4))
