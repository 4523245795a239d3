import random
from typing import NamedTuple

import torch
from torch import nn
from torch.utils.data import DataLoader

PAD, UNK = 0, 1
N_TOPICS = 3
WORDS_PER_TOPIC = 12


class Batch(NamedTuple):
    tokens: torch.Tensor
    topics: torch.Tensor


class WordDropout:
    """Collates sentences of word ids and replaces some words by UNK."""

    def __init__(self, p):
        self.p = p
        self.random = random.Random(13)  # ORIGIN

    def __call__(self, samples):
        width = max(len(ids) for ids, _ in samples)
        tokens = torch.full((len(samples), width), PAD)
        for row, (ids, _) in enumerate(samples):
            for col, word in enumerate(ids):
                drop = self.random.random() < self.p
                tokens[row, col] = UNK if drop else word
        return Batch(tokens, torch.tensor([topic for _, topic in samples]))


def corpus(n):
    r = random.Random(99)
    for _ in range(n):
        topic = r.randrange(N_TOPICS)
        own = range(2 + topic * WORDS_PER_TOPIC, 2 + (topic + 1) * WORDS_PER_TOPIC)
        rest = range(2, 2 + N_TOPICS * WORDS_PER_TOPIC)
        yield r.choices(own, k=r.randint(2, 4)) + r.choices(rest, k=r.randint(3, 5)), topic


class TopicModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(2 + N_TOPICS * WORDS_PER_TOPIC, 20, padding_idx=PAD)
        self.head = nn.Sequential(nn.Linear(20, 20), nn.ReLU(), nn.Linear(20, N_TOPICS))

    def forward(self, tokens):
        return self.head(self.bag(tokens))


def main():
    torch.manual_seed(13)
    loader = DataLoader(list(corpus(288)), batch_size=24, shuffle=True, num_workers=2, collate_fn=WordDropout(0.2))
    model = TopicModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(3):
        hits = 0
        for batch in loader:
            logits = model(batch.tokens)
            loss = nn.functional.cross_entropy(logits, batch.topics)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            hits += (logits.argmax(1) == batch.topics).sum().item()
        print(f"epoch {epoch}: accuracy {hits / 288:.3f}")


if __name__ == "__main__":
    main()
