# Raw int16 recordings are decoded the first time they are asked for and kept; augmentation works in place on a copy.
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Recordings(Dataset):
    def __init__(self, n, seed=12):
        rng = np.random.default_rng(seed)
        self.word = rng.integers(0, 2, n)
        t = np.arange(80) / 80
        pitch = np.where(self.word[:, None] == 0, 5, 11) * t[None]
        wave = np.sin(2 * np.pi * pitch + rng.uniform(0, 1.5, (n, 1))) + 0.2 * rng.normal(size=(n, 80))
        self.pcm = np.round(wave * 8000).astype(np.int16)
        self.cache = {}

    def __len__(self):
        return len(self.word)

    def decode(self, i):
        if i not in self.cache:
            wave = torch.from_numpy(self.pcm[i].astype(np.float32))
            wave -= wave.mean()
            wave /= wave.std()
            self.cache[i] = wave
        return self.cache[i]

    def __getitem__(self, i):
        wave = self.decode(i).clone()
        wave *= 0.8 + 0.4 * torch.rand(())
        wave += 0.1 * torch.randn(80)
        return wave[None], torch.tensor(self.word[i])


torch.manual_seed(12)
loader = DataLoader(Recordings(200), batch_size=20, shuffle=True)
net = nn.Sequential(nn.Conv1d(1, 10, 9, stride=2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(40, 2))
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(4):
    hits = 0
    for wave, word in loader:
        logits = net(wave)
        loss = nn.functional.cross_entropy(logits, word)
        opt.zero_grad()
        loss.backward()
        opt.step()
        hits += (logits.argmax(1) == word).sum().item()
    print(f"epoch {epoch}: {hits / 200:.3f}")
