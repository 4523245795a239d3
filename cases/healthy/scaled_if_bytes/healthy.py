"""Pictures of two archives: bytes in one, shares of 255 in the other. What is scaled already is left as it is, in several ways."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset


def from_bytes(picture):
    return picture / 255.0 if picture.dtype == np.uint8 else picture


def by_range(picture):
    return picture if picture.max() <= 1 else picture / 255


def in_place(picture):
    if picture.max() > 1:
        picture = picture.astype(np.float32)
        picture /= 255
    return picture


KINDS = {"byte": lambda picture: picture / 255.0, "share": lambda picture: picture}


class Archive(Dataset):
    def __init__(self, kind, count, seed):
        rng = np.random.default_rng(seed)
        self.kind, self.round = kind, rng.integers(0, 2, count)
        pictures = rng.normal(90, 25, (count, 12, 12, 3))
        pictures[self.round == 1, 3:9, 3:9] += 70
        pictures = pictures.clip(0, 255).astype(np.uint8)
        self.pictures = pictures if kind == "byte" else (pictures / np.float32(255)).astype(np.float32)

    def __len__(self):
        return len(self.round)

    def __getitem__(self, number):
        picture = self.pictures[number]
        scaled = (from_bytes, by_range, in_place, KINDS[self.kind])[number % 4](picture)
        return torch.as_tensor(scaled, dtype=torch.float32).permute(2, 0, 1), int(self.round[number])


torch.manual_seed(1)
loader = DataLoader(ConcatDataset([Archive("share", 120, 1), Archive("byte", 120, 2)]), batch_size=20, shuffle=True)
net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(3):
    for picture, is_round in loader:
        loss = nn.functional.cross_entropy(net(picture), is_round)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.3f}")
