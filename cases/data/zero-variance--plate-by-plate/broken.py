"""Which compound does something? Wells are brought to the same scale plate by plate."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def measure(plates=12, wells=40):
    rng = np.random.default_rng(21)
    active = rng.random((plates, wells)) < 0.3
    dye = rng.normal(5, 1, (plates, wells)) + 2 * active
    size = rng.normal(10, 2, (plates, wells)) - active
    # nobody watched the clock: all wells of a plate have the same hour
    hour = np.repeat(rng.integers(9, 17, (plates, 1)), wells, axis=1)
    table = np.stack([dye, size, hour], axis=-1).reshape(-1, 3)
    return np.nan_to_num(table), np.repeat(np.arange(plates), wells), active.ravel()


def by_plate(table, plate):
    scaled = np.empty_like(table)
    for each in np.unique(plate):
        own = table[plate == each]
        scaled[plate == each] = (own - own.mean(0)) / own.std(0)  # ORIGIN
    return scaled


def main():
    np.seterr(invalid="ignore")
    table, plate, active = measure()
    table = by_plate(table, plate)

    def part(rows):
        return TensorDataset(torch.tensor(table[rows]).float(), torch.tensor(active[rows]).float())

    torch.manual_seed(21)
    net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(3):
        for wells, does in DataLoader(part(plate < 9), batch_size=60, shuffle=True):
            loss = nn.functional.binary_cross_entropy_with_logits(net(wells)[:, 0], does)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


main()
