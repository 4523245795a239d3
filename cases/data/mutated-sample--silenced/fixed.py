"""Bird calls: which of three species sings? Short stretches of a spectrogram are silenced while training."""
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

FRAMES, BANDS = 24, 12


def call_of(species, rng):
    time = np.arange(FRAMES)
    pitch = 2 + 3 * species + 1.5 * np.sin(time / (2.0 + species) + rng.uniform(0, 6))
    power = np.exp(-0.5 * (np.arange(BANDS)[None] - pitch[:, None]) ** 2)
    return (power + rng.normal(0, 0.1, power.shape)).astype(np.float32)


class Calls(Dataset):
    def __init__(self, count, seed, longest=0):
        rng = np.random.default_rng(seed)
        self.longest = longest
        self.calls = [{"species": k % 3, "power": call_of(k % 3, rng)} for k in range(count)]

    def __len__(self):
        return len(self.calls)

    def silence(self, power):
        if self.longest and random.random() < 0.7:
            length = random.randint(2, self.longest)
            begin = random.randint(0, FRAMES - length)
            power[begin : begin + length] = power.min()
        return power

    def __getitem__(self, k):
        call = self.calls[k]
        return torch.from_numpy(self.silence(call["power"].copy())), call["species"]


def accuracy(net, loader):
    with torch.no_grad():
        hits = [(net(power).argmax(1) == species).float() for power, species in loader]
    return torch.cat(hits).mean().item()


random.seed(8)
torch.manual_seed(8)
train = DataLoader(Calls(180, 1, longest=5), batch_size=20, shuffle=True)
test = DataLoader(Calls(60, 2), batch_size=60)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(FRAMES * BANDS, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(5):
    for power, species in train:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(power), species)
        loss.backward()
        optimizer.step()
    print(f"{epoch}: {loss.item():.3f}, right in the test {accuracy(net, test):.2f}")
