"""Keyword spotting on synthetic filter-bank energies with per-channel compression (PCEN-like)."""
import torch
import torch.nn.functional as F
from torch import nn


class Compression(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.root = nn.Parameter(torch.full((bands,), 0.5))
        self.alpha = nn.Parameter(torch.full((bands,), 0.8))

    def forward(self, energy):
        smooth = F.avg_pool1d(energy, 5, stride=1, padding=2)
        agc = energy / (smooth + 1e-3) ** self.alpha[:, None]
        return (agc + 1e-6) ** self.root[:, None]


class Spotter(nn.Module):
    def __init__(self, bands=8, words=3):
        super().__init__()
        self.bank = nn.Conv1d(1, bands, 16, stride=8, bias=False)
        self.compress = Compression(bands)
        self.lstm = nn.LSTM(bands, 24, batch_first=True)
        self.out = nn.Linear(24, words)

    def forward(self, wave):
        energy = self.bank(wave.unsqueeze(1)) ** 2
        _, (h, _) = self.lstm(self.compress(energy).transpose(1, 2))
        return self.out(h[-1])


def clips(n, generator, length=256):
    word = torch.randint(3, (n,), generator=generator)
    t = torch.arange(length) / length
    wave = torch.sin(6.28 * (12 + 18 * word[:, None]) * t) + 0.2 * torch.randn(n, length, generator=generator)
    wave[:, -48:] = 0.0  # padded to a common length
    return wave, word


torch.manual_seed(33)
gen = torch.Generator().manual_seed(1)
net = Spotter()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(40):
    wave, word = clips(24, gen)
    loss = F.cross_entropy(net(wave), word)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 8 == 0:
        print("step", step, "loss", f"{loss.item():.4f}")
