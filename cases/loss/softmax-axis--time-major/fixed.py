import torch
import torch.nn as nn


class Pooling(nn.Module):
    """Additive attention over time. States are (time, batch, features)."""

    def __init__(self, dim):
        super().__init__()
        self.inner = nn.Linear(dim, dim)
        self.score = nn.Linear(dim, 1, bias=False)

    def forward(self, states):
        energy = self.score(torch.tanh(self.inner(states))).squeeze(-1)
        share = torch.softmax(energy, dim=0)
        return (share.unsqueeze(-1) * states).sum(0)


class Classifier(nn.Module):
    def __init__(self, words=80, dim=16, classes=3):
        super().__init__()
        self.embed = nn.Embedding(words, dim)
        self.gru = nn.GRU(dim, dim)
        self.pool = Pooling(dim)
        self.out = nn.Linear(dim, classes)

    def forward(self, tokens):
        states, _ = self.gru(self.embed(tokens))
        return self.out(self.pool(states))


def batch(n=24, length=10):
    kind = torch.randint(0, 3, (n,))
    tokens = torch.randint(30, 80, (length, n))
    tokens[torch.randint(0, length, (n,)), torch.arange(n)] = kind * 10 + torch.randint(0, 10, (n,))
    return tokens, kind


torch.manual_seed(0)
model = Classifier()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(40):
    tokens, kind = batch()
    loss = criterion(model(tokens), kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step + 1, round(loss.item(), 3))
