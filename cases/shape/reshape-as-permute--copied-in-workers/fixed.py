"""Footsteps: eight microphones, each sample (time, microphone), cut out of one recording by workers."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader


@dataclass
class Footsteps:
    count: int = 256
    length: int = 30
    microphones: int = 8

    def __post_init__(self):
        rng = np.random.default_rng(2)
        self.nearest = rng.integers(0, self.microphones, self.count)
        self.sound = rng.normal(0, 0.5, (self.count, self.length, 2, self.microphones))
        self.sound[np.arange(self.count), 10:20, :, self.nearest] *= 3

    def __len__(self):
        return self.count

    def __getitem__(self, number):
        sound = self.sound[number]
        sound = sound.transpose(2, 1, 0)
        return np.array(sound, dtype=np.float32), self.nearest[number]


def build(microphones):
    return nn.Sequential(nn.Conv2d(microphones, 16, (2, 5)), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 26, microphones))


if __name__ == "__main__":
    torch.manual_seed(0)
    steps = Footsteps()
    net = build(steps.microphones)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    loader = DataLoader(steps, batch_size=32, shuffle=True, num_workers=1)
    for epoch in range(2):
        for sound, nearest in loader:
            loss = nn.functional.cross_entropy(net(sound), nearest)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, f"{loss.item():.3f}")
