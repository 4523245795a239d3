"""Point clouds of 3 to 12 points; the label says in how many clumps they lie (1 or 2)."""
import numpy as np
import torch
from torch.utils.data import Dataset


class Clouds(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng([2024, i])  # a sample depends on its index alone, not on worker or epoch
        count, clumps = int(rng.integers(3, 13)), int(rng.integers(1, 3))
        pts = rng.normal(0.0, 0.3, size=(count, 2))
        pts[:, 0] += np.where(np.arange(count) % clumps == 0, -1.5, 1.5) if clumps == 2 else 0.0
        return torch.from_numpy(pts.astype(np.float32)), clumps - 1


def pad_clouds(samples):
    clouds, labels = zip(*samples)
    longest = max(map(len, clouds))
    points = torch.zeros(len(clouds), longest, 2)
    valid = torch.zeros(len(clouds), longest, dtype=torch.bool)
    for i, c in enumerate(clouds):
        points[i, : len(c)] = c
        valid[i, : len(c)] = True
    return {"points": points, "valid": valid, "label": torch.tensor(labels)}
