"""Bird calls as spectrogram patches; a policy of two augmentations, chosen anew for each patch."""
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

rng = np.random.default_rng(4)


class Gain:
    def __init__(self, most):
        self.most = most

    def __call__(self, patch):
        return patch * rng.uniform(1 / self.most, self.most)


class BandStop:
    """silence a few frequency bands"""

    def __init__(self, width):
        self.width = width

    def __call__(self, patch):
        low = rng.integers(0, patch.shape[0] - self.width)
        quiet = patch.copy()
        if quiet.max() > 0:
            quiet[low : low + self.width] = 0
        return quiet


class Policy:
    def __init__(self, *kinds):
        self.kinds = kinds
        self.applied = 0

    def count(self, kind):
        self.applied += 1

    def augmented(self, patch):
        kind = self.kinds[rng.integers(len(self.kinds))]
        self.count(kind)
        patch = kind(patch)
        return patch


class Calls(Dataset):
    def __init__(self, size, policy):
        self.species = rng.integers(0, 3, size)
        self.policy = policy

    def __len__(self):
        return len(self.species)

    def __getitem__(self, number):
        species = int(self.species[number])
        patch = rng.random((12, 8), dtype=np.float32) * 0.3
        patch[3 * species : 3 * species + 3] += 0.7
        return {"patch": self.policy.augmented(patch), "species": species}


def collated(calls):
    patches = np.stack([each["patch"] for each in calls]).astype(np.float32)
    return torch.from_numpy(patches), torch.tensor([each["species"] for each in calls])


torch.manual_seed(4)
loader = DataLoader(Calls(192, Policy(Gain(1.5), BandStop(2))), batch_size=16, collate_fn=collated)
model = nn.Sequential(nn.Flatten(), nn.Linear(96, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(2):
    for patches, species in loader:
        loss = nn.functional.cross_entropy(model(patches), species)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, round(loss.item(), 4))
