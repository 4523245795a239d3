"""Which crop stands on a field, from three bands of a satellite. The survey has a crop that is not on the list."""
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CROPS = pd.CategoricalDtype(["barley", "maize", "rape", "wheat"])
BANDS = ["red", "infrared", "shortwave"]


class Survey:
    def __init__(self, path):
        fields = pd.read_csv(path).drop_duplicates("field")
        fields["crop"] = fields["crop"].str.lower().astype(CROPS)
        fields["label"] = fields["crop"].cat.codes.astype(np.int64)  # ORIGIN
        fields[BANDS] = (fields[BANDS] - fields[BANDS].mean()) / fields[BANDS].std()
        self.fields = fields

    def part(self, begin, end):
        fields = self.fields.iloc[begin:end]
        bands = torch.from_numpy(fields[BANDS].to_numpy(np.float32))
        return TensorDataset(bands, torch.from_numpy(fields["label"].to_numpy()))


def record(path, count=360, seed=4):
    rng = np.random.default_rng(seed)
    crops = rng.choice(["Barley", "Maize", "Rape", "Wheat"], count)
    crops[[41, 205]] = "Soy"
    bands = rng.normal(0, 0.4, (count, 3)) + (np.char.str_len(crops) % 4)[:, None]
    table = pd.DataFrame(bands, columns=BANDS)
    table.insert(0, "field", np.arange(count))
    table.insert(1, "crop", crops)
    table.to_csv(path, index=False)


torch.manual_seed(0)
with tempfile.TemporaryDirectory() as folder:
    record(Path(folder) / "fields.csv")
    survey = Survey(Path(folder) / "fields.csv")
model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, len(CROPS.categories)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    for bands, label in DataLoader(survey.part(0, 300), batch_size=30, shuffle=True):
        loss = nn.functional.cross_entropy(model(bands), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
