"""Leaves under ultraviolet light: ripe, sick or young? One file a leaf, and a sheet of what the gardener said."""
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

STATES = ("young", "ripe", "sick")


def collect(folder, leaves):
    rng = np.random.default_rng(9)
    (folder / "scans").mkdir()
    lines = []
    for number in range(1, leaves + 1):
        state = rng.integers(0, 3)
        glow = rng.normal(0, 0.3, 24) + np.roll(np.repeat([1.0, 0.0], 12), 6 * state)
        np.save(folder / "scans" / f"leaf{number}.npy", glow.astype(np.float32))
        lines.append(f"leaf{number};{STATES[state]};{rng.integers(4, 20)}")
    (folder / "gardener.txt").write_text("\n".join(lines))


class Leaves(Dataset):
    def __init__(self, folder):
        said = [line.split(";") for line in (folder / "gardener.txt").read_text().splitlines()]
        self.scans = sorted((folder / "scans").glob("*.npy"))  # ORIGIN
        self.states = [state for _, state, _ in said]

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, number):
        return torch.from_numpy(np.load(self.scans[number])), STATES.index(self.states[number])


with tempfile.TemporaryDirectory() as place:
    collect(Path(place), 120)
    torch.manual_seed(9)
    known, held_out = random_split(Leaves(Path(place)), [100, 20])
    net = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for epoch in range(4):
        for glow, state in DataLoader(known, batch_size=10, shuffle=True):
            loss = nn.functional.cross_entropy(net(glow), state)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")
