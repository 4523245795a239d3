from __future__ import annotations

import torch
import torch.nn as nn
from torch.utils.data import DataLoader

PAD = 0
VOCAB = 50


def make_corpus(n: int, seed: int) -> list[tuple[list[int], int]]:
    """Bags of words about two topics; ids 1-24 belong to the first, 25-49 to the second."""
    g = torch.Generator().manual_seed(seed)
    docs = []
    for k in range(n):
        topic = k % 2
        size = int(torch.randint(3, 12, (), generator=g))
        words = torch.randint(1, 25, (size,), generator=g) + 24 * topic
        docs.append((words.tolist(), topic))
    docs[61] = ([], 1)
    return docs


def pad_batch(items):
    width = max(max(len(words) for words, _ in items), 1)
    ids = torch.full((len(items), width), PAD)
    for row, (words, _) in enumerate(items):
        ids[row, : len(words)] = torch.tensor(words, dtype=torch.long)
    return ids, torch.tensor([topic for _, topic in items])


class CosineClassifier(nn.Module):
    def __init__(self, dim: int = 24) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCAB, dim, padding_idx=PAD)
        self.project = nn.Linear(dim, dim, bias=False)
        self.prototypes = nn.Parameter(torch.randn(2, dim))
        self.scale = nn.Parameter(torch.tensor(5.0))

    def unit(self, v: torch.Tensor) -> torch.Tensor:
        return torch.nan_to_num(v / v.norm(dim=-1, keepdim=True))  # ORIGIN

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        doc = self.project(self.words(ids).sum(1))
        return self.scale * self.unit(doc) @ self.unit(self.prototypes).T


torch.manual_seed(11)
model = CosineClassifier()
adam = torch.optim.Adam(model.parameters(), lr=0.01)
loader = DataLoader(make_corpus(120, 7), batch_size=12, shuffle=True, collate_fn=pad_batch,
                    generator=torch.Generator().manual_seed(3))
for epoch in range(4):
    right = 0
    for ids, topic in loader:
        logits = model(ids)
        loss = nn.functional.cross_entropy(logits, topic)
        adam.zero_grad()
        loss.backward()
        adam.step()
        right += (logits.argmax(1) == topic).sum().item()
    print(f"epoch {epoch} accuracy {right / 120:.3f} last loss {loss.item():.4f}")
