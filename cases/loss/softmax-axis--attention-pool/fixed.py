import torch
from torch import nn


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, seq):                                  # (B, T, D)
        energy = self.score(torch.tanh(self.key(seq)))       # (B, T, 1)
        alpha = torch.softmax(energy, dim=1)
        return (alpha * seq).sum(dim=1)


class EventClassifier(nn.Module):
    def __init__(self, n_in=6, dim=24, n_classes=3):
        super().__init__()
        self.embed = nn.Linear(n_in, dim)
        self.pool = AttentionPool(dim)
        self.norm = nn.LayerNorm(dim)
        self.cls = nn.Linear(dim, n_classes)

    def forward(self, seq):
        return self.cls(self.norm(self.pool(torch.relu(self.embed(seq)))))


def sensor_batch(n, length=10):
    """One time step is the event (flag in channel 0), the rest are distractors."""
    seq = torch.randn(n, length, 6)
    seq[..., 0] = -1.0
    where = torch.randint(0, length, (n,))
    label = torch.randint(0, 3, (n,))
    rows = torch.arange(n)
    seq[rows, where, 0] = 2.0
    seq[rows, where, 1 + label] += 2.5
    return seq, label


torch.manual_seed(9)
model = EventClassifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
loss_fn = nn.CrossEntropyLoss()
history = []
for step in range(60):
    seq, label = sensor_batch(48)
    optimizer.zero_grad()
    loss = loss_fn(model(seq), label)
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if (step + 1) % 15 == 0:
        print(step + 1, sum(history[-15:]) / 15)
