"""Bytes go in as they are; the network owns its normalisation, so that the exported model takes camera frames."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, n):
        r = np.random.default_rng(2)
        self.kind = r.integers(0, 4, n)
        self.frames = r.integers(40, 120, (n, 3, 10, 10), dtype=np.uint8)
        for frame, kind in zip(self.frames, self.kind):
            top, left = divmod(int(kind), 2)
            frame[:, top * 5 : top * 5 + 5, left * 5 : left * 5 + 5] += 70

    def __len__(self):
        return len(self.kind)

    def __getitem__(self, i):
        return self.frames[i], self.kind[i]


class Quadrant(nn.Module):
    def __init__(self, mean, std):
        super().__init__()
        self.register_buffer("mean", mean.view(1, 3, 1, 1))
        self.register_buffer("std", std.view(1, 3, 1, 1))
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 25, 4)
        )

    def forward(self, frame):
        return self.body((frame.float() - self.mean) / self.std)


torch.manual_seed(0)
frames = Frames(400)
pixels = torch.from_numpy(frames.frames).double()
model = Quadrant(pixels.mean((0, 2, 3)).float(), pixels.std((0, 2, 3)).float())
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    total = 0.0
    for frame, kind in DataLoader(frames, batch_size=25, shuffle=True):
        loss = nn.functional.cross_entropy(model(frame), kind)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item() / 16
    print(epoch, round(total, 4))
