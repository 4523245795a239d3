"""Birds by their calls: recordings of one length go into one batch."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Calls(Dataset):
    def __init__(self, seed):
        draw = torch.Generator().manual_seed(seed)
        lengths = [20] * 33 + [30] * 24 + [40] * 16
        self.bird = torch.randint(0, 3, (len(lengths),), generator=draw)
        self.calls = [
            torch.sin(torch.arange(length) * (0.3 + 0.4 * int(bird))) + 0.2 * torch.randn(length, generator=draw)
            for length, bird in zip(lengths, self.bird, strict=True)
        ]

    def __len__(self):
        return len(self.calls)

    def __getitem__(self, index):
        return self.calls[index], self.bird[index]


class OfOneLength:
    def __init__(self, calls, size):
        self.calls, self.size = calls, size

    def __iter__(self):
        together = {}
        for index in torch.randperm(len(self.calls)).tolist():
            batch = together.setdefault(len(self.calls.calls[index]), [])
            batch.append(index)
            if len(batch) == self.size:
                yield together.pop(len(self.calls.calls[index]))
        for batch in together.values():
            if len(batch) > 1:
                yield batch


class Ear(nn.Module):
    def __init__(self):
        super().__init__()
        self.hear = nn.Conv1d(1, 8, 5)
        self.name = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, calls):
        return self.name(self.hear(calls[:, None]).relu().mean(2))


torch.manual_seed(8)
calls = Calls(seed=9)
loader = DataLoader(calls, batch_sampler=OfOneLength(calls, 8))
ear = Ear()
optimizer = torch.optim.Adam(ear.parameters(), lr=5e-3)
for epoch in range(4):
    for call, bird in loader:
        loss = nn.functional.cross_entropy(ear(call), bird)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}")
