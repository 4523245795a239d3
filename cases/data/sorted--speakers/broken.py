"""Who speaks: one recording folder per speaker, short frames, ConcatDataset over speakers."""
import math

import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Dataset


class SpeakerFrames(Dataset):
    def __init__(self, speaker, count, length=64):
        self.speaker = speaker
        self.length = length
        g = torch.Generator().manual_seed(900 + speaker)
        self.phase = 2 * math.pi * torch.rand(count, generator=g)
        self.noise = 0.3 * torch.randn(count, length, generator=g)

    def __len__(self):
        return len(self.phase)

    def __getitem__(self, k):
        t = torch.arange(self.length) / self.length
        wave = torch.sin(2 * math.pi * (4 + 3 * self.speaker) * t + self.phase[k])
        return (wave + self.noise[k]).unsqueeze(0), self.speaker


class VoiceNet(nn.Module):
    def __init__(self, speakers):
        super().__init__()
        self.conv = nn.Conv1d(1, 16, 9, padding=4)
        self.norm = nn.GroupNorm(4, 16)
        self.out = nn.Linear(16, speakers)

    def forward(self, wave):
        h = torch.relu(self.norm(self.conv(wave)))
        return self.out(h.mean(-1))


def main(speakers=4, epochs=3):
    torch.manual_seed(0)
    recordings = ConcatDataset([SpeakerFrames(s, 64) for s in range(speakers)])
    loader = DataLoader(  # ORIGIN
        recordings,
        batch_size=16,
        num_workers=2,
        persistent_workers=True,
    )
    net = VoiceNet(speakers)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    for epoch in range(epochs):
        correct = 0
        for wave, who in loader:
            logits = net(wave)
            loss = nn.functional.cross_entropy(logits, who)
            opt.zero_grad()
            loss.backward()
            opt.step()
            correct += int((logits.argmax(1) == who).sum())
        print(f"epoch {epoch}: {correct}/{len(recordings)} frames right, last loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
