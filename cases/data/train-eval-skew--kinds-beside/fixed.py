"""Energy that a house needs, trained on the north and tested on the south. Kinds of heating stand beside what was measured."""
import numpy as np
import torch
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from torch import nn

MEASURED, KIND = [0, 1, 2], [3]


def houses(count, south, seed):
    rng = np.random.default_rng(seed)
    area = rng.gamma(6, 20, count)
    insulation = rng.uniform(0.1, 0.9 if south else 0.5, count)
    degrees = rng.normal(2100 if south else 3300, 250, count)
    heating = rng.integers(0, 3, count)
    needed = area * degrees * (1 - insulation) * (1 + 0.1 * heating) / 1e5
    return np.column_stack([area, insulation, degrees, heating]), np.log(needed).astype(np.float32)


class Inputs:
    def __init__(self):
        self.columns = ColumnTransformer(
            [("measured", StandardScaler(), MEASURED), ("kind", OneHotEncoder(sparse_output=False), KIND)]
        )

    def __call__(self, table):
        return torch.from_numpy(self.columns.fit_transform(table)).float()

    def like_before(self, table):
        return torch.from_numpy(self.columns.transform(table)).float()


def main():
    torch.manual_seed(4)
    north, needed = houses(600, south=False, seed=1)
    south, needed_there = houses(200, south=True, seed=2)
    inputs = Inputs()
    train, target = inputs(north), torch.from_numpy(needed)
    test = inputs.like_before(south)
    net = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(8):
        net.train()
        for rows in torch.randperm(len(train)).split(60):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(train[rows])[:, 0], target[rows])
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            error = (net(test)[:, 0] - torch.from_numpy(needed_there)).abs().mean()
        print(f"{epoch}: {loss.item():.3f}, off by {error.item():.3f}")


if __name__ == "__main__":
    main()
