"""Ripe, unripe or rotten: small colour pictures of tomatoes, kept in memory."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

SIDE = 20


def photographed(count):
    """Pictures as a camera gives them: rows, columns, colours."""
    kind = torch.randint(0, 3, (count,))
    pictures = torch.randint(0, 60, (count, SIDE, SIDE, 3), dtype=torch.uint8)
    for picture, each in zip(pictures, kind.tolist()):
        picture[5:15, 5:15, each] += 120
    return pictures, kind


def prepared(pictures):
    pixels = pictures.float() / 255
    return pixels.permute(0, 3, 1, 2)


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.ReLU())
        self.kind = nn.Linear(8, 3)

    def forward(self, pictures):
        return self.kind(self.features(pictures).mean((2, 3)))


def main():
    torch.manual_seed(10)
    pictures, kind = photographed(320)
    training, _ = random_split(TensorDataset(prepared(pictures), kind), [256, 64])
    model = Sorter()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(3):
        for pixels, label in DataLoader(training, batch_size=32, shuffle=True):
            loss = nn.functional.cross_entropy(model(pixels), label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
