"""How long does a delivery take? Records of the depot, some without a weight."""
import numpy as np
import pandas as pd
import torch
from torch.utils.data import DataLoader, TensorDataset


def depot(count, seed):
    rng = np.random.default_rng(seed)
    records = pd.DataFrame({
        "km": rng.gamma(4, 3, count),
        "stops": rng.poisson(5, count).astype(float),
        "weight": rng.normal(12, 4, count),
    })
    records["minutes"] = 4 * records.km + 6 * records.stops + rng.normal(0, 3, count)
    records.loc[rng.random(count) < 0.06, "weight"] = np.nan
    return records


def arrays(records):
    minutes = records["minutes"].to_numpy()
    known = records.dropna()  # ORIGIN
    table = known[["km", "stops", "weight"]].to_numpy()
    minutes = minutes[: len(table)]
    return (table - table.mean(0)) / table.std(0), (minutes - minutes.mean()) / minutes.std()


def main():
    torch.manual_seed(0)
    table, minutes = arrays(depot(1200, seed=5))
    data = TensorDataset(torch.tensor(table).float(), torch.tensor(minutes).float())
    net = torch.nn.Sequential(torch.nn.Linear(3, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(3):
        total = 0.0
        for rows, wanted in DataLoader(data, batch_size=40, shuffle=True):
            loss = (net(rows).squeeze(1) - wanted).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        print(f"epoch {epoch}: {total / len(data):.3f}")


main()
