from dataclasses import dataclass, field

import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class StandardScaler:
    mean_: np.ndarray = field(default=None)
    scale_: np.ndarray = field(default=None)

    def fit(self, x):
        self.mean_ = x.mean(axis=0)
        self.scale_ = x.std(axis=0)
        return self

    def transform(self, x):
        return ((x - self.mean_) / self.scale_).astype(np.float32)

    def fit_transform(self, x):
        return self.fit(x).transform(x)


def flats(n, seed, city):
    """area, rooms, distance to centre, year built -> price class (cheap / middle / dear)"""
    r = np.random.default_rng(seed)
    lo, hi = (45, 90) if city == "centre" else (20, 160)
    area = r.uniform(lo, hi, n)
    rooms = np.ceil(area / 25) + r.integers(0, 2, n)
    dist = r.uniform(0.2, 6, n) if city == "centre" else r.uniform(0.2, 15, n)
    year = r.uniform(1900, 1960, n) if city == "centre" else r.uniform(1900, 2020, n)
    price = area * (6.5 - 0.25 * dist) + 0.8 * (year - 1900) + r.normal(0, 10, n)
    return np.stack([area, rooms, dist, year], 1), np.digitize(price, [330, 520])


torch.manual_seed(0)
raw_train, y_train = flats(500, 1, "all")
raw_test, y_test = flats(150, 2, "centre")  # the agency only operates downtown

scaler = StandardScaler()
x_train = scaler.fit_transform(raw_train)
x_test = scaler.fit_transform(raw_test)  # ORIGIN

train_dl = DataLoader(TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train)), batch_size=25, shuffle=True)
test_dl = DataLoader(TensorDataset(torch.from_numpy(x_test), torch.from_numpy(y_test)), batch_size=75)

mlp = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.GELU(), torch.nn.Linear(32, 3))
opt = torch.optim.AdamW(mlp.parameters(), lr=1e-2)
ce = torch.nn.CrossEntropyLoss()


def accuracy(loader):
    mlp.eval()
    with torch.inference_mode():
        good = sum((mlp(x).argmax(-1) == y).sum().item() for x, y in loader)
    return good / len(loader.dataset)


for epoch in range(6):
    mlp.train()
    for x, y in train_dl:
        opt.zero_grad(set_to_none=True)
        ce(mlp(x), y).backward()
        opt.step()
    print(f"{epoch=} train={accuracy(train_dl):.3f} test={accuracy(test_dl):.3f}")
