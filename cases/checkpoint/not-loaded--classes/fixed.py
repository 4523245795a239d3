import io

import torch
import torch.nn.functional as F
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary, tags, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.mix = nn.GRU(dim, dim, batch_first=True)
        self.classify = nn.Linear(dim, tags)

    def forward(self, tokens):
        states, _ = self.mix(self.embed(tokens))
        return self.classify(states)


COARSE = ["noun", "verb", "other"]
FINE = ["noun", "name", "verb", "auxiliary", "other"]


def sentences(n, tags):
    tokens = torch.randint(0, 60, (n, 12))
    return tokens, tokens % len(tags)


def train(model, tags, steps, lr):
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    for _ in range(steps):
        tokens, labels = sentences(32, tags)
        loss = F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


torch.manual_seed(2)
first = Tagger(60, len(FINE))
print("trained", round(train(first, FINE, 40, 5e-3), 3))
store = io.BytesIO()
torch.save(first.state_dict(), store)
store.seek(0)

second = Tagger(60, tags=len(FINE))
second.load_state_dict(torch.load(store))
print("resumed", round(train(second, FINE, 20, 1e-3), 3))
