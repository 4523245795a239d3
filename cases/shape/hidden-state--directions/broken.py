"""Is a sequence rising or falling? A bidirectional GRU that begins with a state of its own."""

import torch
from torch import nn

torch.manual_seed(0)
sequences = torch.randn(64, 12, 1).cumsum(1)
labels = (sequences[:, -1, 0] > sequences[:, 0, 0]).long()


class Reader(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.width = width
        self.gru = nn.GRU(1, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, 2)

    def begin(self, batch):
        return torch.zeros(1, batch, self.width)  # ORIGIN

    def forward(self, x):
        outputs, _ = self.gru(x, self.begin(x.size(0)))
        return self.head(outputs.mean(1))


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(3):
    for rows in torch.randperm(64).split(16):
        loss = nn.functional.cross_entropy(model(sequences[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.3f}")
