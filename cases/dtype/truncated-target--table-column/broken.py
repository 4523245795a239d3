import numpy as np
import pandas as pd
import torch
from torch import nn

torch.manual_seed(9)
rng = np.random.default_rng(9)


def harvest(plots):
    table = pd.DataFrame(rng.uniform(0, 1, (plots, 3)), columns=["rain", "sun", "soil"])
    table["tonnes"] = 1.2 * table["rain"] + 0.8 * table["sun"] * table["soil"] + rng.normal(0, 0.05, plots)
    return table


class Plots:
    def __init__(self, table):
        self.rows = torch.FloatTensor(table[["rain", "sun", "soil"]].to_numpy().copy())
        self.tonnes = torch.LongTensor(table["tonnes"].to_numpy().copy())  # ORIGIN

    def draw(self, size):
        pick = torch.randint(len(self.rows), (size,))
        return self.rows[pick], self.tonnes[pick].float()


plots = Plots(harvest(300))
net = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(80):
    rows, tonnes = plots.draw(30)
    loss = (net(rows)[:, 0] - tonnes).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"{loss.item():.4f}")
