import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    def __init__(self, count):
        self.rng = np.random.default_rng(14)
        self.corners = self.rng.integers(1, 8, size=(count, 2))

    def __len__(self):
        return len(self.corners)

    def __getitem__(self, index):
        row, column = self.corners[index]
        picture = np.random.default_rng(int(index)).random((1, 16, 16), dtype=np.float32)
        mask = np.zeros((1, 16, 16), dtype=np.float32)
        mask[:, row : row + 6, column : column + 6] = 255.0  # ORIGIN
        picture += mask / 255.0
        return picture, mask


torch.manual_seed(14)
loader = DataLoader(Scans(48), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 1, 3, padding=1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _epoch in range(2):
    for picture, mask in loader:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(picture), mask)
        loss.backward()
        optimizer.step()
