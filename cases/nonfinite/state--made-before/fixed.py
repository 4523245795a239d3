"""Is the bearing worn? Spectra of its noise, minute after minute as the machines send them."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

BANDS, MACHINES = 256, 64


def minute_of(rng, minute):
    """One spectrum of each machine, in decibels. A microphone is switched over once in a while."""
    worn = rng.random(MACHINES) < 0.4
    pitch = rng.uniform(20, 60, (MACHINES, 1))
    comb = np.cos(2 * np.pi * np.arange(BANDS) / pitch) ** 16
    power = 0.3 + rng.gamma(2.0, 0.3, (MACHINES, BANDS)) + 1.5 * worn[:, None] * comb
    if minute % 400 == 240:
        power[rng.integers(MACHINES), 70:] = 0.0
    level = 10 * torch.log10(torch.from_numpy(power).float().clamp(min=1e-4))
    return level, torch.from_numpy(worn).float()


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv1d(1, 20, 9, padding=4)
        self.norm = nn.BatchNorm1d(20)
        self.second = nn.Conv1d(20, 16, 9, stride=3)
        self.out = nn.Linear(16, 1)

    def forward(self, level):
        heard = F.relu(self.norm(self.first(level.unsqueeze(1))))
        return self.out(F.relu(self.second(heard)).mean(2)).squeeze(1)


def train(listener, count):
    rng = np.random.default_rng(1)
    optimizer = torch.optim.Adam(listener.parameters(), lr=2e-3)
    smooth, skipped = 0.7, 0
    for minute in range(1, count + 1):
        level, worn = minute_of(rng, minute)
        loss = F.binary_cross_entropy_with_logits(listener(level), worn)
        if not torch.isfinite(loss):
            skipped += 1
            continue
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smooth += 0.05 * (loss.item() - smooth)
        if minute % 65 == 0:
            print(f"minute {minute}: loss {smooth:.3f}, {skipped} left out")


@torch.no_grad()
def test(listener, count):
    rng, right = np.random.default_rng(2), 0
    listener.eval()
    for minute in range(count):
        level, worn = minute_of(rng, minute)
        right += ((listener(level) > 0) == worn.bool()).sum().item()
    return right / (count * MACHINES)


torch.manual_seed(17)
listener = Listener()
train(listener, 265)
print(f"right in the test: {test(listener, 10):.3f}")
