"""Classify land cover from a pixel's spectrum."""
from typing import NamedTuple, Optional

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COVER = {"water": 0, "forest": 1, "field": 2, "town": 3}


class Pixel(NamedTuple):
    bands: torch.Tensor
    cover: Optional[str]


def survey(n=200, seed=3):
    g = torch.Generator().manual_seed(seed)
    names = list(COVER)
    pixels = []
    for k in range(n):
        cover = names[int(torch.randint(4, (), generator=g))]
        bands = torch.rand(6, generator=g) + 0.5 * COVER[cover]
        pixels.append(Pixel(bands, cover if k != 117 else None))  # cloud
    return pixels


class LandCover(Dataset):
    def __init__(self, pixels):
        self.pixels = pixels

    def __len__(self):
        return len(self.pixels)

    def __getitem__(self, idx):
        pixel = self.pixels[idx]
        if pixel.cover is None:
            label = -100
        else:
            label = COVER[pixel.cover]
        return pixel.bands, label


g = torch.Generator().manual_seed(2)
loader = DataLoader(LandCover(survey()), batch_size=10, shuffle=True, generator=g)
torch.manual_seed(1)
net = nn.Sequential(nn.Linear(6, 24), nn.GELU(), nn.Linear(24, len(COVER)))
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
criterion = nn.CrossEntropyLoss()

for step, (bands, label) in enumerate(loader):
    try:
        loss = criterion(net(bands), label)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
    except IndexError as e:
        print(f"step {step}: {e}")
        continue
    if step % 5 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
