"""Fault detection on vibration windows: is the bearing worn?"""
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, n=192, length=64, seed=0):
        rng = torch.Generator().manual_seed(seed)
        t = torch.arange(length) / length
        self.worn = torch.randint(0, 2, (n,), generator=rng)
        tone = torch.sin(6.28 * (5 + 6 * self.worn[:, None]) * t)
        self.signal = tone + 0.3 * torch.randn(n, length, generator=rng)
        self.signal[143] = 0.0  # sensor unplugged during maintenance
        self.worn[143] = 0

    def __len__(self):
        return len(self.signal)

    def __getitem__(self, i):
        return self.signal[i].unsqueeze(0), self.worn[i]


class Detector(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.conv = nn.Conv1d(1, channels, 9, bias=False)
        self.head = nn.Linear(channels, 2)

    def standardize(self, h):
        mu = h.mean(dim=2, keepdim=True)
        var = ((h - mu) ** 2).mean(dim=2, keepdim=True)
        std = torch.sqrt(var + 1e-8)
        return (h - mu) / (std + 1e-5)

    def forward(self, x):
        h = F.relu(self.standardize(self.conv(x)))
        return self.head(h.amax(dim=2))


def main():
    torch.manual_seed(0)
    loader = DataLoader(Windows(), batch_size=16, shuffle=True, generator=torch.Generator().manual_seed(8))
    net = Detector()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-2)
    for epoch in range(3):
        total = 0.0
        for x, y in loader:
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
        print(f"epoch {epoch}: loss {total / len(loader):.4f}")


if __name__ == "__main__":
    main()
