"""Four kinds of road sign, drawn small; the dataset draws them itself."""
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class RoadSigns(Dataset):
    SHAPES = ("stop", "yield", "priority", "limit")

    def __init__(self, count, seed):
        rnd = random.Random(seed)
        gen = torch.Generator().manual_seed(seed)
        outlines = torch.randn(len(self.SHAPES), 6, 6, generator=gen)
        self.pictures, self.kinds = [], []
        for _ in range(count):
            kind = rnd.randrange(len(self.SHAPES))
            self.pictures.append(outlines[kind] + 0.7 * torch.randn(6, 6, generator=gen))
            self.kinds.append(kind)
        # neighbours in the list should not be neighbours on the road
        rnd.shuffle(self.pictures)  # ORIGIN

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return self.pictures[index].flatten(), self.kinds[index]


def run(epochs=4):
    torch.manual_seed(7)
    signs = RoadSigns(400, seed=7)
    train, test = Subset(signs, range(320)), Subset(signs, range(320, 400))
    net = nn.Sequential(nn.Linear(36, 32), nn.ReLU(), nn.Linear(32, 4))
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
    for epoch in range(epochs):
        for x, y in DataLoader(train, batch_size=20, shuffle=True):
            opt.zero_grad()
            nn.functional.cross_entropy(net(x), y).backward()
            opt.step()
        with torch.no_grad():
            right = sum((net(x).argmax(1) == y).sum().item() for x, y in DataLoader(test, batch_size=40))
        print(f"epoch {epoch}: {right / 80:.3f}")


run()
