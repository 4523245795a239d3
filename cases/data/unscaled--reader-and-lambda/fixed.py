import pathlib
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from reading import Shelf


def then(*steps):
    def run(page):
        for step in steps:
            page = step(page)
        return page

    return run


prepare = then(
    lambda page: page[2:-2, 2:-2],
    lambda page: (page - 0.13) / 0.31,
    lambda page: torch.as_tensor(page)[None],
)


class Pages(Dataset):
    def __init__(self, folder, prepare):
        self.shelf, self.prepare = Shelf(folder), prepare

    def __len__(self):
        return len(self.shelf.files)

    def __getitem__(self, number):
        strokes, digit = self.shelf.page(number)
        return self.prepare(strokes), digit


def scan(folder, count=120):
    rng = np.random.default_rng(8)
    for number in range(count):
        digit = number % 2
        page = rng.normal(60, 20, (20, 20))
        page[(5, 14)[digit], 4:16] += 120
        np.savez(folder / f"{number:03d}.npz", strokes=page.clip(0, 255).astype(np.uint8), digit=digit)


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        scan(folder)
        loader = DataLoader(Pages(folder, prepare), batch_size=12, shuffle=True)
        net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6 * 49, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
        for epoch in range(2):
            for page, digit in loader:
                loss = nn.functional.cross_entropy(net(page), digit)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            print(epoch, f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
