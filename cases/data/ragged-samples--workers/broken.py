"""Keyword spotting on fixed-width clips cut out of one long recording."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

CLIP = 100


class Clips(Dataset):
    def __init__(self, recording, hop):
        self.recording = recording
        self.hop = hop

    def __len__(self):
        return math.ceil((len(self.recording) - CLIP) / self.hop) + 1

    def __getitem__(self, i):
        start = i * self.hop
        clip = self.recording[start:start + CLIP]  # ORIGIN
        loud = int(clip.abs().mean() > 0.8)
        return clip.unsqueeze(0), loud


class Spotter(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 8, kernel_size=9, stride=3)
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(F.relu(self.conv(x)).mean(dim=2))


def main():
    torch.manual_seed(0)
    envelope = 1 + 0.5 * torch.sin(torch.arange(3130) / 200)
    dataset = Clips(torch.randn(3130) * envelope, hop=60)
    loader = DataLoader(dataset, batch_size=9, shuffle=True, num_workers=2)
    model = Spotter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(1):
        for clips, loud in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(clips), loud)
            loss.backward()
            optimizer.step()
            print(f"{loss.item():.3f}")


if __name__ == "__main__":
    main()
