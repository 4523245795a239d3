from dataclasses import dataclass

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Sampler


class Faces(Dataset):
    """12 'people', 10 noisy descriptors each."""

    def __init__(self):
        g = torch.Generator().manual_seed(1)
        people = torch.randn(12, 20, generator=g)
        self.x = (people.repeat_interleave(10, 0) + 0.7 * torch.randn(120, 20, generator=g)) / 1.2
        self.who = torch.arange(12).repeat_interleave(10)

    def __len__(self):
        return 120

    def __getitem__(self, i):
        return self.x[i], self.who[i]


class PKSampler(Sampler):
    """P people times K pictures in every batch."""

    def __init__(self, who, p, k, batches):
        self.who, self.p, self.k, self.batches = who, p, k, batches

    def __len__(self):
        return self.batches

    def __iter__(self):
        for _ in range(self.batches):
            batch = []
            for person in torch.randperm(12)[: self.p]:
                own = (self.who == person).nonzero().flatten()
                batch += own[torch.randperm(len(own))[: self.k]].tolist()
            yield batch


@dataclass
class BatchHard:
    margin: float = 0.3

    def __call__(self, z, who):
        dist = torch.cdist(z, z)                              # N x N
        same = who[:, None] == who[None, :]
        itself = torch.eye(len(who), dtype=torch.bool)
        hardest_pos = dist.masked_fill(~same | itself, 0.0).amax(1)
        hardest_neg = dist.masked_fill(same, float("inf")).amin(1)
        active = hardest_pos - hardest_neg + self.margin
        return active.relu().mean(), (active > 0).float().mean().item()


def run():
    torch.manual_seed(6)
    data = Faces()
    loader = DataLoader(data, batch_sampler=PKSampler(data.who, 6, 4, 15))
    net = nn.Sequential(nn.Linear(20, 32), nn.PReLU(), nn.Linear(32, 16))
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    criterion = BatchHard()
    for epoch in range(6):
        seen = active = 0.0
        for x, who in loader:
            z = nn.functional.normalize(net(x), dim=1)
            loss, share = criterion(z, who)
            opt.zero_grad()
            loss.backward()
            opt.step()
            seen += loss.item() / len(loader)
            active += share / len(loader)
        print(f"epoch {epoch} triplet {seen:.4f} active {active:.2f}")


if __name__ == "__main__":
    run()
