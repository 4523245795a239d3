"""Pictures that are stored as one long row, colour by colour. On their way they are counted in several ways, and come back to the one they
were written in: arrays with other sizes in another order, and no element out of its place."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COLOURS, SIDE = 3, 14


def stored(count, rng):
    """One row a picture: all reds, then all greens, then all blues."""
    kind = rng.integers(0, COLOURS, count)
    pictures = rng.random((count, COLOURS, SIDE, SIDE), dtype=np.float32) * 0.4
    pictures[np.arange(count), kind, 3:9, 3:9] += 0.5
    return pictures.reshape(count, -1).copy(), kind


class Rows(Dataset):
    def __init__(self, rows, kind):
        self.kind = torch.from_numpy(kind)
        # The camera's software writes the sizes the other way round; the bytes are as above.
        listed = rows.reshape(len(rows), SIDE, SIDE, COLOURS)
        self.pictures = torch.from_numpy(listed).view(-1, SIDE * SIDE, COLOURS).reshape(-1, COLOURS, SIDE, SIDE)

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, index):
        picture = self.pictures[index]
        as_seen = picture.permute(1, 2, 0).contiguous()
        return as_seen.permute(2, 0, 1).reshape(COLOURS, SIDE, SIDE), self.kind[index]


torch.manual_seed(1)
data = Rows(*stored(192, np.random.default_rng(1)))
model = nn.Sequential(nn.Conv2d(COLOURS, 6, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(6, COLOURS))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
for _ in range(4):
    for picture, kind in DataLoader(data, batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(picture), kind)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"{loss.item():.3f}")
