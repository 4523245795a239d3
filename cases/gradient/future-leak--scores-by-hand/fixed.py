import math

import torch
from torch import nn

WORDS, LENGTH = 20, 12


class Attention(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(dim // self.heads)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, dim))


class Model(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.embed = nn.Embedding(WORDS, dim)
        self.place = nn.Parameter(0.02 * torch.randn(LENGTH, dim))
        self.norm = nn.LayerNorm(dim)
        self.attend = Attention(dim)
        self.out = nn.Linear(dim, WORDS)

    def forward(self, ids):
        x = self.embed(ids) + self.place
        return self.out(x + self.attend(self.norm(x)))


torch.manual_seed(0)
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(40):
    text = torch.randint(0, WORDS, (24, LENGTH + 1))
    ids, labels = text[:, :-1], text[:, 1:]
    loss = nn.functional.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        print(step + 1, round(loss.item(), 3))
