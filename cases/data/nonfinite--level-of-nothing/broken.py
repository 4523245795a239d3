"""Whale or ship? Hydrophones are listened to in turn; levels are taken relative to the loudest band."""
import numpy as np
import torch
from torch import nn

BANDS, AT_ONCE = 40, 12


def bands_of(rng, is_whale):
    centre = rng.uniform(5, 15) if is_whale else rng.uniform(20, 35)
    return np.exp(-((np.arange(BANDS) - centre) ** 2) / 18) + rng.gamma(2.0, 0.02, BANDS)


def level(bands):
    return 20 * np.log10(bands / 1e-3)  # ORIGIN


def listening(rounds, rng):
    for number in range(rounds):
        is_whale = rng.random(AT_ONCE) < 0.5
        heard = [bands_of(rng, each) for each in is_whale]
        if number == 230:
            heard[7] *= 0.0  # hauled in for repair
        levels = np.array([level(each) for each in heard], dtype=np.float32)
        yield torch.from_numpy(levels), torch.from_numpy(is_whale).float()


class Listener(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(BANDS, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, levels):
        below = levels - levels.max(dim=1, keepdim=True).values
        return self.layers(below / 30).squeeze(1)


torch.manual_seed(6)
net = Listener()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
smooth = 0.7
for number, (levels, is_whale) in enumerate(listening(280, np.random.default_rng(6)), start=1):
    loss = nn.functional.binary_cross_entropy_with_logits(net(levels), is_whale)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    smooth += 0.1 * (loss.item() - smooth)
    if number % 40 == 0:
        print(f"{number} rounds: {smooth:.3f}")
