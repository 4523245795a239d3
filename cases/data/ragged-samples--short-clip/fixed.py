from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

CLIP = 200


@dataclass
class Sample:
    wave: torch.Tensor
    speaker: int
    name: str


@dataclass
class Batch:
    wave: torch.Tensor
    speaker: torch.Tensor
    names: list

    @staticmethod
    def of(samples):
        return Batch(
            wave=torch.stack([s.wave for s in samples]),
            speaker=torch.tensor([s.speaker for s in samples]),
            names=[s.name for s in samples],
        )


class Voices(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(77)
        self.takes = []
        for i in range(n):
            who = int(torch.randint(0, 3, (1,), generator=g))
            length = 170 if i == 52 else int(torch.randint(220, 400, (1,), generator=g))
            t = torch.arange(length) / 100
            pitch = 4 + 5 * who
            wave = torch.sin(6.283 * pitch * t) + 0.3 * torch.randn(length, generator=g)
            self.takes.append((f"take{i:03d}.wav", wave, who))

    def __len__(self):
        return len(self.takes)

    def __getitem__(self, i):
        name, wave, who = self.takes[i]
        start = int(torch.randint(0, max(1, len(wave) - CLIP), (1,)))
        wave = wave[start : start + CLIP]
        wave = F.pad(wave, (0, CLIP - len(wave)))
        return Sample(wave, who, name)


class SpeakerNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Conv1d(1, 12, 25, stride=5)
        self.out = nn.Linear(12, 3)

    def forward(self, wave):
        h = F.relu(self.filters(wave[:, None]))
        return self.out(h.mean(-1))


torch.manual_seed(1)
voices = DataLoader(Voices(160), batch_size=16, shuffle=True, collate_fn=Batch.of)
net = SpeakerNet()
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for epoch in range(4):
    total = 0.0
    for b in voices:
        loss = F.cross_entropy(net(b.wave), b.speaker)
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    print(f"epoch {epoch} {total / len(voices):.4f}")
