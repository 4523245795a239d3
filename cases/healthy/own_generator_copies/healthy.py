"""Gaits from a shoe sensor; each reading is shifted, scaled and blotted out in part, with random numbers of the dataset's own."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Gaits(Dataset):
    def __init__(self, count, seed, blot=0):
        self.draw = torch.Generator().manual_seed(seed)
        self.gait = torch.randint(0, 3, (count,), generator=self.draw)
        time = torch.arange(40) / 6
        pace = 1.0 + 0.5 * self.gait[:, None]
        phase = 2 * torch.rand(count, 1, generator=self.draw)
        forward, up = torch.sin(time * pace + phase), torch.sin(2 * time * pace + phase).abs()
        self.readings = torch.stack([forward, up], dim=1)
        self.readings += 0.15 * torch.randn(self.readings.shape, generator=self.draw)
        self.blot = blot

    def __len__(self):
        return len(self.gait)

    def _number(self, most):
        return int(torch.randint(0, most, (), generator=self.draw))

    def __getitem__(self, index):
        reading = self.readings[index].clone()
        if self.blot:
            reading *= 0.8 + 0.4 * torch.rand((), generator=self.draw)
            reading = reading.roll(self._number(5), dims=1)
            begin = self._number(reading.shape[1] - self.blot)
            reading[:, begin : begin + self.blot] = 0.0
        return reading, self.gait[index]


def main():
    torch.manual_seed(12)
    train = DataLoader(Gaits(256, seed=1, blot=8), batch_size=32, shuffle=True)
    test = DataLoader(Gaits(96, seed=2), batch_size=96)
    net = nn.Sequential(
        nn.Conv1d(2, 12, 7), nn.ReLU(), nn.Conv1d(12, 16, 7, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 14, 3)
    )
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for epoch in range(5):
        net.train()
        for reading, gait in train:
            loss = nn.functional.cross_entropy(net(reading), gait)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            right = sum((net(reading).argmax(1) == gait).sum().item() for reading, gait in test)
        print(f"epoch {epoch}: loss {loss.item():.3f}, {right} of {len(test.dataset)} right")


if __name__ == "__main__":
    main()
