"""Are two recordings of the same speaker? Small batches, five of them for one update."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    """Two voice prints and whether they are close. One recording was filed twice."""

    def __init__(self, count, seed):
        rng = torch.Generator().manual_seed(seed)
        self.first = torch.randn(count, 6, generator=rng)
        self.second = self.first + torch.randn(count, 6, generator=rng)
        self.second[701] = self.first[701]
        self.same = ((self.first - self.second).norm(dim=1) < 2.3).float()

    def __len__(self):
        return len(self.first)

    def __getitem__(self, index):
        return self.first[index], self.second[index], self.same[index]


class Speakers(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 8))

    def forward(self, first, second):
        apart = self.body(first) - self.body(second)
        return (apart.square().sum(1) + 1e-9).sqrt()


def contrastive(distance, same):
    return torch.where(same > 0, distance**2, (1.5 - distance).clamp(min=0) ** 2).mean()


def train(model, loader, epochs=2, portions=5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for epoch in range(epochs):
        total = 0.0
        for number, (first, second, same) in enumerate(loader, start=1):
            loss = contrastive(model(first, second), same) / portions
            loss.backward()
            total += loss.item()
            if number % portions == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {total:.3f}")


torch.manual_seed(1)
train(Speakers(), DataLoader(Pairs(1000, 3), batch_size=4))
