"""Synthetic 'texture' pictures: horizontal against vertical stripes."""
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def render(n, size, seed):
    rng = np.random.default_rng(seed)
    pictures = rng.integers(0, 60, size=(n, 1, size, size), dtype=np.uint8)
    kinds = rng.integers(0, 2, size=n)
    for picture, kind in zip(pictures, kinds):
        if kind:
            picture[0, ::3, :] += 150
        else:
            picture[0, :, ::3] += 150
    return pictures, kinds


def normalise(pictures):
    return pictures / 255.0  # ORIGIN


def loaders(size, batch_size):
    made = []
    for n, seed in ((96, 1), (32, 2)):
        pictures, kinds = render(n, size, seed)
        ds = TensorDataset(torch.as_tensor(normalise(pictures)), torch.as_tensor(kinds))
        made.append(DataLoader(ds, batch_size=batch_size, shuffle=seed == 1))
    return made
