"""Which herb grows on a plot: the survey is packed once, and every run reads the pack."""
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SPECIES = 180


def pack(path, plots, seed):
    g = torch.Generator().manual_seed(seed)
    species = (torch.rand(plots, generator=g) ** 3 * SPECIES).long()
    soil = torch.stack([species / SPECIES, (species % 7) / 7.0], 1) + 0.05 * torch.randn(plots, 2, generator=g)
    torch.save({"soil": soil, "species": species.to(torch.int8)}, path)  # ORIGIN


class Survey(Dataset):
    def __init__(self, path):
        packed = torch.load(path)
        self.soil, self.species = packed["soil"], packed["species"].long()

    def __len__(self):
        return len(self.soil)

    def __getitem__(self, plot):
        return self.soil[plot], self.species[plot]


def train(path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, SPECIES))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for soil, species in DataLoader(Survey(path), batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(model(soil), species)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"{loss.item():.3f}")


with tempfile.TemporaryDirectory() as folder:
    pack(Path(folder) / "plots.pt", 400, seed=3)
    train(Path(folder) / "plots.pt")
