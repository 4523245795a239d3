"""Sentiment of short reviews with additive attention pooling."""
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

REVIEWS = ["great phone", "awful battery and awful screen", "great screen", "slow slow slow", "love it",
           "awful", "great battery love it", "slow and awful", "love the screen", "great"]
WORDS = {w: i + 1 for i, w in enumerate(sorted(set(" ".join(REVIEWS).split())))}
GOOD = {"great", "love"}


class Reviews(Dataset):
    def __init__(self, copies=12):
        self.texts = REVIEWS * copies
        self.texts[73] = ""

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, i):
        words = self.texts[i].split()
        return {"ids": [WORDS[w] for w in words], "label": float(bool(GOOD & set(words)))}


def pad(samples):
    width = max(len(s["ids"]) for s in samples)
    ids = torch.tensor([s["ids"] + [0] * (width - len(s["ids"])) for s in samples])
    return {"ids": ids, "label": torch.tensor([s["label"] for s in samples])}


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query = nn.Parameter(torch.randn(dim) / math.sqrt(dim))
        self.key = nn.Linear(dim, dim)

    def forward(self, x, mask):
        scores = torch.tanh(self.key(x)) @ self.query
        scores = scores.masked_fill(~mask, -1e9)
        weights = torch.softmax(scores, dim=1)
        return torch.einsum("bt,btd->bd", weights, x)


class Sentiment(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(len(WORDS) + 1, dim, padding_idx=0)
        self.pool = AttentionPool(dim)
        self.out = nn.Linear(dim, 1)

    def forward(self, ids):
        return self.out(self.pool(self.embed(ids), ids > 0)).squeeze(-1)


torch.manual_seed(0)
model = Sentiment()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for batch in DataLoader(Reviews(), batch_size=10, shuffle=True, collate_fn=pad):
        loss = nn.functional.binary_cross_entropy_with_logits(model(batch["ids"]), batch["label"])
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: loss {loss.item():.3f}")
