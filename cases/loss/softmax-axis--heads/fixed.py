import math

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(dim // self.heads)
        weights = F.softmax(scores, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, dim))


class Reader(nn.Module):
    def __init__(self, vocab=30, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attend = SelfAttention(dim, heads=4)
        self.head = nn.Linear(dim, 2)

    def forward(self, ids):
        h = self.embed(ids)
        return self.head((h + self.attend(h)).mean(1))


torch.manual_seed(0)
ids = torch.randint(0, 30, (320, 10))
label = (ids[:, 0] == ids[:, 1:].amax(1)).long() ^ (ids.sum(1) % 2)
model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(2):
    for rows in torch.randperm(len(ids)).split(32):
        loss = F.cross_entropy(model(ids[rows]), label[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
