import torch
from torch import nn

PAD = 0


class Bag(nn.Module):
    def __init__(self, words=120, dim=16, classes=4):
        super().__init__()
        self.embed = nn.Embedding(words, dim, padding_idx=PAD)
        self.head = nn.Sequential(nn.Linear(dim, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, classes))

    def forward(self, ids):
        mask = (ids != PAD).unsqueeze(-1).float()
        words = self.embed(ids) * mask
        return self.head(words.sum(1) / mask.sum(1).clamp(min=1))


def tickets(n=32, longest=12):
    topic = torch.randint(0, 4, (n,))
    ids = torch.randint(50, 120, (n, longest))
    ids[:, :3] = 1 + 10 * topic.unsqueeze(1) + torch.randint(0, 10, (n, 3))
    length = torch.randint(3, longest + 1, (n, 1))
    return ids.masked_fill(torch.arange(longest) >= length, PAD), topic


torch.manual_seed(0)
model = Bag()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(100):
    ids, topic = tickets()
    logits = model(ids)
    loss = criterion(logits, topic)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 24:
        print(f"{step + 1} loss {loss.item():.3f} acc {(logits.argmax(1) == topic).float().mean():.2f}")
