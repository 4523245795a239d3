"""Faces in short clips: frames are encoded one by one, then put back into clips of the size that training has."""
from types import SimpleNamespace

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

setup = SimpleNamespace(clips=16, frames=5, width=18)


class ClipEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.frame = nn.Sequential(nn.Conv2d(1, 6, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(54, setup.width))
        self.time = nn.Linear(setup.width, 1)
        self.mood = nn.Linear(setup.width, 4)

    def forward(self, clips):
        frames = self.frame(clips.reshape(-1, 1, 8, 8))
        frames = frames.view(setup.clips, setup.frames, -1)  # ORIGIN
        weight = self.time(frames).softmax(1)
        return self.mood((weight * frames).sum(1))


torch.manual_seed(0)
data = TensorDataset(torch.randn(72, setup.frames, 8, 8), torch.randint(0, 4, (72,)))
encoder = ClipEncoder()
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.05)
for clips, mood in DataLoader(data, batch_size=setup.clips):
    loss = nn.functional.cross_entropy(encoder(clips), mood)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
