import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


def load_album(n=180):
    """list of HWC (colour) or HW (gray scanner) uint8 arrays, and what is on them"""
    rng = np.random.default_rng(19)
    album = []
    for k in range(n):
        label = int(rng.integers(0, 3))
        base = np.zeros((16, 16)) + 60
        if label == 1:
            base[4:12, 4:12] = 190
        elif label == 2:
            base[::2] = 190
        img = base[:, :, None] + rng.normal(0, 20, (16, 16, 3))
        if k == 118:
            img = img.mean(2)
        album.append((img.clip(0, 255).astype(np.uint8), label))
    return album


class Album(Dataset):
    def __init__(self, photos):
        self.photos = photos

    def __len__(self):
        return len(self.photos)

    def __getitem__(self, k):
        img, label = self.photos[k]
        if img.ndim == 2:
            img = np.stack([img] * 3, axis=2)
        x = torch.from_numpy(img).permute(2, 0, 1).float() / 255
        return (x - 0.4) / 0.25, label


def build():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(4),
        nn.Flatten(), nn.Linear(8 * 16, 3),
    )


def main():
    torch.manual_seed(0)
    loader = DataLoader(Album(load_album()), batch_size=15, shuffle=True, num_workers=2)
    model, epochs = build(), 2
    opt = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            opt.step()
        print(f"{epoch + 1}/{epochs} loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
