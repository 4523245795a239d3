"""Which of three words was seen most often: an LSTM over embedded words."""

import torch
from torch import nn

torch.manual_seed(0)
words = torch.randint(0, 3, (48, 9))
labels = torch.stack([(words == each).sum(1) for each in range(3)], 1).argmax(1)


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(3, 6)
        self.lstm = nn.LSTM(6, 12, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        x = self.embed(x).transpose(1, 2)  # ORIGIN
        outputs, _ = self.lstm(x)
        return self.head(outputs[:, -1])


model = Counter()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for step in range(6):
    rows = torch.randint(0, 48, (16,))
    loss = nn.functional.cross_entropy(model(words[rows]), labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.3f}")
