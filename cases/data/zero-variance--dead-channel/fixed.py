"""Sleep or not, from four electrodes. One of them came off for a while and is flat."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def night(count=300, length=50, seed=9):
    rng = np.random.default_rng(seed)
    asleep = rng.random(count) < 0.5
    waves = rng.normal(0, 12, (count, 4, length)) + 30 * np.sin(np.arange(length) / 4)[None, None] * asleep[:, None, None]
    waves[131:134, 2] = 7.5
    return waves.astype(np.float32), asleep.astype(np.int64)


def comparable(epoch):
    level = epoch.mean(axis=1, keepdims=True)
    spread = epoch.std(axis=1, keepdims=True)
    epoch = epoch - level
    return epoch / np.where(spread > 0, spread, 1)


class Night(Dataset):
    def __init__(self, waves, asleep):
        self.waves, self.asleep = waves, asleep

    def __len__(self):
        return len(self.waves)

    def __getitem__(self, number):
        return torch.from_numpy(comparable(self.waves[number])), self.asleep[number]


np.seterr(all="ignore")
torch.manual_seed(2)
model = nn.Sequential(nn.Conv1d(4, 12, 5), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(12, 2))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
for turn in range(2):
    for waves, asleep in DataLoader(Night(*night()), batch_size=25, shuffle=True):
        loss = nn.functional.cross_entropy(model(waves), asleep)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(turn, loss.item())
