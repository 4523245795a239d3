"""Tremor or not, from windows of an accelerometer that are faded in and out; half-way the fade gets softer."""
import numpy as np
import torch
from torch import nn


class Recording:
    def __init__(self, signal, labels, length=32):
        self.signal, self.labels, self.length = signal, labels, length
        self.fade = np.hanning(length).astype(np.float32)

    def soften(self, by):
        self.fade = np.hanning(self.length + by)[by // 2 : -(by // 2)].astype(np.float32)

    def draw(self, rng, count):
        starts = rng.integers(0, len(self.signal) - self.length, count)
        windows = np.stack([self.signal[start : start + self.length] for start in starts])
        return torch.from_numpy(windows), torch.from_numpy(self.labels[starts])


def record(seed, length=600):
    rng = np.random.default_rng(seed)
    shaking = (np.arange(length) // 100) % 2
    wave = np.sin(np.arange(length) * 0.9) * shaking + 0.2 * rng.standard_normal(length)
    return wave.astype(np.float32), shaking


def train():
    torch.manual_seed(2)
    rng = np.random.default_rng(2)
    recording = Recording(*record(2))
    model = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for step in range(40):
        x, y = recording.draw(rng, 16)
        x = x * torch.from_numpy(recording.fade)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 19:
            recording.soften(by=8)
    print(f"{loss.item():.3f}")


train()
